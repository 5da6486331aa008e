"""What the operator says about GitHub: a ``[github]`` section of a file, or the environment."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from larc.errors import LarcError, reason
from larc.github.client import PUBLIC, checked_base

_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
_SECTION = ConfigDict(extra="forbid", hide_input_in_errors=True)
Seconds = Annotated[float, Field(ge=0, le=1e6)]


class HookSettings(BaseModel):
    """One webhook: the name in its address, and its secret; two while one is being replaced."""

    model_config = _SECTION
    name: Annotated[str, Field(pattern=_NAME)] = "default"
    secrets: Annotated[list[Annotated[str, Field(min_length=8)]], Field(min_length=1, max_length=4)]


class GitHubSettings(BaseModel):
    """GitHub's part of a server.

    Attributes
    ----------
    hooks
        Who may deliver; without one, no webhook is taken.
    api
        Where GitHub answers; no address from a delivery is ever asked.
    token
        For reading runs and jobs, and for commit statuses.
    rest
        Whether GitHub is asked at all; by default if there is a token or an App.
    template
        What streams of repositories are made from.
    join_wait_s
        How long a job waits for the event of its run before GitHub is asked, or it goes on without.
    settle_s
        How long labels wait for others of the same second: they are learned together.
    reconcile_s
        How often GitHub is asked about jobs that never ended, and about what was never delivered.
    overdue_s
        How long a job may run, at least, before GitHub is asked about it.
    surprise
        A label with less probability than this is a surprise.
    output
        What is shown at GitHub: nothing, one neutral check run for each commit (of an App), or
        one commit status.
    output_every_s
        How often what is shown of one commit may change.
    app_id, installation_id, app_key_file
        The App that makes check runs: its numbers, and the file of its private key.
    """

    model_config = _SECTION
    hooks: list[HookSettings] = []
    api: str = PUBLIC
    token: str = ""
    rest: bool | None = None
    template: Annotated[str, Field(pattern=_NAME)] = "ci"
    join_wait_s: Seconds = 5.0
    settle_s: Seconds = 2.0
    reconcile_s: Annotated[float, Field(gt=0, le=1e6)] = 300.0
    overdue_s: Seconds = 1800.0
    surprise: Annotated[float, Field(ge=0, le=1)] = 0.05
    output: Literal["none", "check-run", "status"] = "none"
    output_every_s: Seconds = 60.0
    app_id: str = ""
    installation_id: str = ""
    app_key_file: str = ""

    @property
    def asks(self) -> bool:
        """Whether GitHub is asked."""
        return bool(self.token or self.app_id) if self.rest is None else self.rest

    def secrets(self, hook: str) -> list[str]:
        """Return the secrets of a hook; none if there is no such hook."""
        return [text for one in self.hooks if one.name == hook for text in one.secrets]


_VARIABLES = {
    "LARC_GITHUB_API": "api",
    "LARC_GITHUB_TOKEN": "token",
    "LARC_GITHUB_OUTPUT": "output",
    "LARC_GITHUB_APP_ID": "app_id",
    "LARC_GITHUB_INSTALLATION_ID": "installation_id",
    "LARC_GITHUB_APP_KEY_FILE": "app_key_file",
}


def github_settings(file: Path | None, environment: Mapping[str, str]) -> GitHubSettings:
    """Return what a file's ``[github]`` section and the environment say; the environment rules.

    Examples
    --------
    >>> environment = {"LARC_GITHUB_WEBHOOK_SECRET": "a secret of ours"}
    >>> github_settings(None, environment).hooks[0].name
    'default'
    """
    values = _section(file)
    for name, setting in _VARIABLES.items():
        if environment.get(name):
            values[setting] = environment[name]
    if environment.get("LARC_GITHUB_WEBHOOK_SECRET"):
        hooks = values.get("hooks", [])
        hook = {"name": "default", "secrets": [environment["LARC_GITHUB_WEBHOOK_SECRET"]]}
        values["hooks"] = [*(hooks if isinstance(hooks, list) else []), hook]
    try:
        settings = GitHubSettings(**values)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise LarcError(f"the setting github.{where} is wrong: {first['msg']}.") from None
    checked_base(settings.api, settings.token or settings.app_id)
    _check_output(settings)
    return settings


def _check_output(settings: GitHubSettings) -> None:
    names = [one.name for one in settings.hooks]
    if len(set(names)) < len(names):
        raise LarcError("two hooks of [github] have one name; name each differently.")
    app = (settings.app_id, settings.installation_id, settings.app_key_file)
    if any(app) and not all(app):
        raise LarcError("an App needs app_id, installation_id and app_key_file; give all three.")
    if settings.output == "check-run" and not all(app):
        raise LarcError(
            "only a GitHub App may make check runs; give app_id, installation_id and "
            'app_key_file, or output = "status" with a token.'
        )
    if settings.output == "status" and not settings.asks:
        raise LarcError('output = "status" needs a token; put one into LARC_GITHUB_TOKEN.')


def _section(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LarcError(f"{file} cannot be read as TOML ({reason(error)[:200]}).") from None
    unknown = set(document) - {"github"}
    if unknown:
        raise LarcError(f"{file} has the sections {sorted(unknown)}; [github] is the one there is.")
    section = document.get("github", {})
    if not isinstance(section, dict):
        raise LarcError(f"{file} has github as a value; give a section [github].")
    return section
