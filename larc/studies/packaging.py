"""The initialization package of a run: its slow states, and their whole story.

Layout
------
config.json, model.safetensors, seed-N.safetensors
    The states, as `larc.SlowState.from_pretrained` reads them.
adapter/
    The semantic adapter that is part of their substrate, if there is one.
README.md
    The model card: what they are, how they did, where they come from, what they were made with.
lineage.json
    The run's config, evidence and manifest, and the command that makes it.
evaluation/
    The run's tables.
LICENSE
    The licence of the package.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import larc
from larc.errors import LarcError
from larc.io.files import atomic_directory, atomic_write, make_directory
from larc.io.hashes import sha256
from larc.io.json_files import as_json, parse_json
from larc.pretrained import write_layout
from larc.rules import RULES, parse_rule
from larc.runs.run import CONFIG, MANIFEST, Run
from larc.state import SlowState
from larc.studies.registry import study_of
from larc.studies.reports import Reported, reported
from larc.studies.running import command_of, verify_run
from larc.studies.study import States
from larc.substrate import load_substrate
from larc.substrate.adapter import ADAPTER_FILES
from larc.substrate.presets import FETCHED
from larc.substrate.sources import HUB_PRESETS

# What a preset's model is called on the Hub.
_HUB_NAMES = {
    **{name: model.hub_name for name, model in FETCHED.items()},
    **{name: preset.repository for name, preset in HUB_PRESETS.items()},
}


@dataclass(frozen=True)
class Choice:
    """Which states of a run are packaged, and why."""

    objective: str
    reason: str


def write_package(run: Run, out: str | Path, objective: str | None = None) -> Path:
    """Write the package of a finished run that is as it was; returns its directory.

    Parameters
    ----------
    run
        The run.
    out
        The directory to make.
    objective
        Whose states; those of the objective that the run selected, by default.
    """
    verify_run(run)
    choice = chosen(run, objective)
    states = selected_states(run, choice.objective)
    licence = _licence()
    whole = reported(run)
    out = Path(out)
    with atomic_directory(out) as directory:
        write_layout(directory, [(slow.about, slow.to_bytes()) for slow in states])
        adapter = bool(run.settings.get("adapter"))
        if adapter:
            _copy_adapter(run, directory / "adapter", states[0].substrate)
        for name, content in _states_of(run).files(run, choice.objective).items():
            atomic_write(directory / name, content)
        atomic_write(directory / "LICENSE", licence)
        atomic_write(directory / "lineage.json", as_json(_lineage(run, choice, states)))
        make_directory(directory / "evaluation")
        for name, content in whole.documents().items():
            if name.startswith("tables/"):
                atomic_write(directory / "evaluation" / Path(name).name, content)
        card = _card(whole, choice, states, adapter)
        atomic_write(directory / "README.md", card.encode())
    return out


def chosen(run: Run, objective: str | None) -> Choice:
    """Return whose states are packaged and why, refusing what the run has not."""
    states = _states_of(run)
    objectives = states.objectives(run)
    if not objectives:
        if objective is not None:
            raise LarcError(f"a run of {run.kind!r} has one objective; leave --objective out.")
        return Choice("", "")
    selected, reason = states.choose(run)
    if objective is None and selected is None:
        raise LarcError(f"{reason} Name one with --objective to package it anyway.")
    return Choice(objective or selected or "", reason)


def selected_states(run: Run, objective: str) -> list[SlowState]:
    """Return the states of every seed, as the run trained them by an objective or fitted them."""
    states = _states_of(run)
    objectives = states.objectives(run)
    if objectives and objective not in objectives:
        raise LarcError(
            f"{run.path} has no states of objective {objective!r}; it has {', '.join(objectives)}."
        )
    units = [states.unit(objective, seed) for seed in run.settings["seeds"]]
    return [SlowState.from_bytes(run.unit_file(u, "slow.safetensors"), u) for u in units]


def _states_of(run: Run) -> States:
    states = study_of(run).states
    if states is None:
        raise LarcError(f"{run.path} is a run of {run.kind!r}, which trains no slow states.")
    return states


def _copy_adapter(run: Run, target: Path, substrate: str) -> None:
    """Copy the adapter, if it is still the one that the run's substrate was made with."""
    source = Path(run.settings["adapter"])
    settings = run.settings
    loaded = load_substrate(
        settings["substrate"],
        adapter=source,
        dtype=settings["dtype"],
        acts_on=settings.get("acts_on", ""),  # runs from before it have none
        chat=settings.get("chat", False),
    )
    if loaded.identity.digest != substrate:
        raise LarcError(
            f"{source} is not the adapter that {run.path} was made with, or {settings['substrate']}"
            " is another model by now; bring them back as they were."
        )
    make_directory(target)
    for name in ADAPTER_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)


def _lineage(run: Run, choice: Choice, states: Sequence[SlowState]) -> dict[str, Any]:
    manifest = run.read(MANIFEST)
    return {
        "command": command_of(run),
        "config": parse_json(run.read(CONFIG), run.path / CONFIG),
        "evidence": run.evidence(),
        "manifest": run.manifest(),
        "manifest_sha256": sha256(manifest),
        "objective": choice.objective,
        "selection": choice.reason,
        "states": [slow.about for slow in states],
    }


def _licence() -> bytes:
    try:
        files = distribution("larc-lm").files or []
        listed = [Path(str(f.locate())) for f in files if f.name == "LICENSE"]
    except PackageNotFoundError:
        listed = []
    # A source tree that is used where it lies has it at its top.
    for path in (*listed, Path(larc.__file__).parents[1] / "LICENSE"):
        if path.is_file():
            return path.read_bytes()
    raise LarcError("the text of larc's licence is missing; install larc as a whole.")


# The model card ----------------------------------------------------------------------------------


def _card(whole: Reported, choice: Choice, states: Sequence[SlowState], adapter: bool) -> str:
    run = whole.run
    first, substrate = states[0], str(run.settings["substrate"])
    base = _HUB_NAMES.get(substrate)
    front = ["license: apache-2.0", "library_name: larc"]
    front += [f"base_model: {base}"] if base else []
    front += ["tags:", "- larc", "- test-time-training", "- meta-learning", "- low-rank-adaptation"]
    trained = f"by the {choice.objective} objective, " if choice.objective else ""
    acts_on = run.settings.get("acts_on", "")
    use = f'load_substrate("{substrate}"' + (', adapter=f"{place}/adapter"' if adapter else "")
    use += f', acts_on="{acts_on}"' if acts_on else ""
    dtype = run.settings.get("dtype", "float32")
    use += f', dtype="{dtype}"' if dtype != "float32" else ""
    use += ", chat=True)" if run.settings.get("chat") else ")"
    what, where = first.place
    told = _states_of(run).rule(run, choice.objective, first)
    rule = f", rule={_rule_source(told)}" if told else ""
    parts = [
        *("---", *front, "---", ""),
        *(f"# Slow states of LARC for {base or substrate}", ""),
        f"Starting factors of a low-rank {what}, in the frozen model: rank {first.factors.rank}, "
        f"{where}, trained {trained}one state for each of {len(states)} seeds.",
        *("", "```python", "import larc", "", 'place = "this directory, or its hub id"'),
        f"substrate = larc.{use}",
        f"slow = larc.SlowState.from_pretrained(place, seed={first.seed}, substrate=substrate)",
        *(f"learner = larc.Learner(substrate, slow{rule})", "```", ""),
        "A state is refused on any model but the one it was trained in, by the hash of its weights,"
        " configuration, tokenizer and adapter.",
        *("", "## States", ""),
        *_states(states),
        *("", "## Evaluation", "", whole.report.answer, ""),
        *([choice.reason, ""] if choice.reason else []),
        *_tables(whole),
        *("## Lineage", "", "```", command_of(run), "```", ""),
        *_rows(("Identity", "SHA-256"), _identities(run)),
        *("", "The whole manifest, the order of evidence and the configuration are in", ""),
        *("`lineage.json`.", "", "## Environment", ""),
        *_rows(("What", "Version"), _environment(run)),
        *("", "## Licence", "", "Apache-2.0, in `LICENSE`. The frozen model is not part of this "),
        "package and has terms of its own.",
    ]
    return "\n".join(parts) + "\n"


def _rule_source(text: str) -> str:
    """Return how a rule is written in a program; one of somebody's own is named and not loaded."""
    if text.partition(":")[0] in RULES:
        return f"larc.{parse_rule(text)!r}"
    return f"larc.rules.parse_rule({text!r})"


def _states(states: Sequence[SlowState]) -> list[str]:
    columns = ["Seed", "Slow updates", "Digest"]
    rows = [[str(slow.seed), str(slow.version), f"`{slow.digest}`"] for slow in states]
    if any(slow.step_size or slow.rule for slow in states):
        columns.append("Step size, learned")
        for row, slow in zip(rows, states, strict=True):
            row.append(f"{slow.step_size:.4g}" if slow.step_size else slow.rule or "–")
    return _rows(columns, rows)


def _tables(whole: Reported) -> list[str]:
    lines = []
    for table in sorted(whole.report.tables, key=lambda table: table.name):
        lines += [f"### {table.name.capitalize()}", "", table.markdown().strip(), ""]
    return lines


def _identities(run: Run) -> list[tuple[str, str]]:
    manifest = run.manifest()
    rows = [("manifest", sha256(run.read(MANIFEST)))]
    for name, value in sorted(manifest.get("identities", {}).items()):
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, str) and one:
                rows.append((name, one))
            elif isinstance(one, Mapping):
                hashed = {part: digest for part, digest in one.items() if part != "acts_on"}
                rows += [(f"{name}: {part}", digest) for part, digest in sorted(hashed.items())]
    return [(name, f"`{digest}`") for name, digest in rows]


def _environment(run: Run) -> list[tuple[str, str]]:
    rows: dict[tuple[str, str], None] = {}
    for facts in run.made_with():
        for name in ("python", "machine"):
            rows[name, str(facts.get(name, "unknown"))] = None
        for package, version in sorted(facts.get("packages", {}).items()):
            rows[package, str(version)] = None
    return list(rows)


def _rows(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [columns, ["---"] * len(columns), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]
