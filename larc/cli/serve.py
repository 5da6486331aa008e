"""``larc serve``: private learning states for other programs, over HTTP."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from larc.cli.common import Commands, command

STOPPED = "what was acknowledged is kept; go on with"


def add(commands: Commands) -> None:
    """Declare the command."""
    sentence = "Serve learning states over HTTP: ask now, label later."
    serve = command(commands, "serve", sentence, _serve, stopped=STOPPED)
    option = serve.add_argument
    option("--data", default="larc-data", metavar="DIR", help="where it is kept [larc-data]")
    option("--database", default="", metavar="URL", help="a PostgreSQL to share [SQLite in DIR]")
    option("--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen [127.0.0.1]")
    option("--port", type=int, default=8722, metavar="N", help="0 for any that is free [8722]")
    option("--token-file", metavar="FILE", help="write the administrator's token there [print it]")
    option(
        "--substrate",
        action="append",
        metavar="TEXT",
        help="a frozen model; again for others that templates may name "
        "[smollm2-135m if fetched, else tiny]",
    )
    option(
        "--state",
        action="append",
        metavar="[NAME=]STATE",
        help="a slow state or a package, of any of these models; again for others [untrained]",
    )
    option("--rule", default="", metavar="TEXT", help="the update rule [the slow state's]")
    option("--threads", type=int, default=0, metavar="N", help="of the model [torch's choice]")
    option("--live", type=int, default=1000, metavar="N", help="streams in memory [1000]")
    option("--lease", type=float, default=5.0, metavar="S", help="until others take over [5]")
    option("--config", metavar="FILE", help="TOML with a section [github] [environment alone]")
    option("--rate", type=float, default=0.0, metavar="N", help="requests a second a token [any]")


def _serve(arguments: argparse.Namespace) -> None:
    from larc.errors import LarcError

    try:
        from larc.service.server import ServerSettings, run
    except ImportError as error:
        raise LarcError(
            f"the service needs {error.name}; install it with `pip install 'larc-lm[serve]'`."
        ) from error
    import torch

    from larc.rules import parse_rule
    from larc.service.engine import EngineSettings
    from larc.service.github.settings import github_settings
    from larc.service.http.context import HttpSettings
    from larc.service.starts import load_models
    from larc.substrate.fetching import is_fetched

    if arguments.live < 1 or arguments.lease < 0.5:
        raise LarcError("--live is at least 1 and --lease at least 0.5.")
    if not 0 <= arguments.threads <= 256 or not 0 <= arguments.port < 2**16:
        raise LarcError("--threads is 0 (for torch's choice) to 256, and --port 0 to 65535.")
    if not 0 <= arguments.rate < float("inf"):
        raise LarcError(f"--rate is {arguments.rate}; give a finite number, 0 for any rate.")
    config = None if arguments.config is None else Path(arguments.config)
    github = github_settings(config, os.environ)
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    if arguments.rule:
        parse_rule(arguments.rule)
    usual = "smollm2-135m" if is_fetched("smollm2-135m") else "tiny"
    models = load_models(arguments.substrate or [usual], arguments.state or [], arguments.rule)
    file = arguments.token_file
    settings = ServerSettings(
        data=Path(arguments.data),
        database=arguments.database,
        host=arguments.host,
        port=arguments.port,
        token_file=None if file is None else Path(file),
        engine=EngineSettings(live=arguments.live, lease_s=arguments.lease),
        http=HttpSettings(rate=arguments.rate),
        github=github,
    )
    run(settings, models)
