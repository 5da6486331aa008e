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
from larc.files import make_directory, whole_directory, write_whole
from larc.pretrained import write_layout
from larc.rules import parse_rule
from larc.state import SlowState
from larc.studies import ci_queue, own_tasks, programs, stream_queue
from larc.studies.catalog import command_of
from larc.studies.runs import Run, as_json, read_file, read_json, sha256
from larc.studies.verify import verify
from larc.substrate import load_substrate
from larc.substrate.adapter import ADAPTER_FILES
from larc.substrate.sources import HUB_PRESETS

#: Kinds of runs whose states were trained by an objective that has to be chosen.
EPISODIC = (programs.KIND, own_tasks.KIND)
#: Kinds of runs that fit one state to each seed.
FITTED = (ci_queue.KIND, stream_queue.KIND)
# What a preset's model is called on the Hub.
_HUB_NAMES = {
    "smollm2-135m": "HuggingFaceTB/SmolLM2-135M-Instruct",
    **{name: preset.repository for name, preset in HUB_PRESETS.items()},
}
# Tables that say what the run cost, not how its states did.
_COSTS = ("cost", "ledger")


@dataclass(frozen=True)
class Choice:
    """Which states of a run are packaged, why, and what the run found, a sentence each."""

    objective: str
    reason: str
    finding: str


def write_package(run: Run, out: str | Path, choice: Choice) -> Path:
    """Write the package of a finished run that is as it was; returns its directory."""
    verify(run.path)
    states = selected_states(run, choice.objective)
    licence = _licence()
    out = Path(out)
    with whole_directory(out) as place:
        write_layout(place, [(slow.about, slow.to_bytes()) for slow in states])
        adapter = bool(run.settings.get("adapter"))
        if adapter:
            _copy_adapter(run, place / "adapter", states[0].substrate)
        write_whole(place / "LICENSE", licence)
        write_whole(place / "lineage.json", as_json(_lineage(run, choice, states)))
        for table in sorted((run.path / "tables").glob("*.*")):
            make_directory(place / "evaluation")
            write_whole(place / "evaluation" / table.name, read_file(table))
        write_whole(place / "README.md", _card(run, choice, states, adapter).encode())
    return out


def selected_states(run: Run, objective: str) -> list[SlowState]:
    """Return the states of every seed, as the run trained them by an objective or fitted them."""
    if run.kind in EPISODIC:
        known = run.settings["objectives"]
        if objective not in known:
            raise LarcError(
                f"{run.path} has no states of objective {objective!r}; it has {', '.join(known)}."
            )
        prefix = f"train-{objective}"
    elif run.kind in FITTED:
        prefix = "fit"
    else:
        raise LarcError(f"{run.path} is a run of {run.kind!r}, which trains no slow states.")
    units = [f"{prefix}-{seed}" for seed in run.settings["seeds"]]
    return [SlowState.from_bytes(run.unit_file(u, "slow.safetensors"), u) for u in units]


def _copy_adapter(run: Run, place: Path, substrate: str) -> None:
    """Copy the adapter, if it is still the one that the run's substrate was made with."""
    source = Path(run.settings["adapter"])
    settings = run.settings
    loaded = load_substrate(
        settings["substrate"],
        adapter=source,
        dtype=settings["dtype"],
        acts_on=settings.get("acts_on", ""),  # runs from before it have none
    )
    if loaded.identity.digest != substrate:
        raise LarcError(
            f"{source} is not the adapter that {run.path} was made with, or {settings['substrate']}"
            " is another model by now; bring them back as they were."
        )
    make_directory(place)
    for name in ADAPTER_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, place / name)


def _lineage(run: Run, choice: Choice, states: Sequence[SlowState]) -> dict[str, Any]:
    manifest = read_file(run.path / "manifest.json")
    return {
        "command": command_of(run),
        "config": read_json(run.path / "config.json"),
        "evidence": run.evidence(),
        "manifest": run.manifest(),
        "manifest_sha256": sha256(manifest),
        "objective": choice.objective,
        "selection": choice.reason,
        "states": [slow.about for slow in states],
    }


def _licence() -> bytes:
    try:
        files = distribution("larc").files or []
        listed = [Path(str(f.locate())) for f in files if f.name == "LICENSE"]
    except PackageNotFoundError:
        listed = []
    # A source tree that is used where it lies has it at its top.
    for path in (*listed, Path(larc.__file__).parents[1] / "LICENSE"):
        if path.is_file():
            return path.read_bytes()
    raise LarcError("the text of larc's licence is missing; install larc as a whole.")


# The model card ----------------------------------------------------------------------------------


def _card(run: Run, choice: Choice, states: Sequence[SlowState], adapter: bool) -> str:
    first, substrate = states[0], str(run.settings["substrate"])
    base = _HUB_NAMES.get(substrate)
    front = ["license: apache-2.0", "library_name: larc"]
    front += [f"base_model: {base}"] if base else []
    front += ["tags:", "- larc", "- test-time-training", "- meta-learning", "- low-rank-adaptation"]
    trained = f"by the {choice.objective} objective, " if choice.objective else ""
    acts_on = run.settings.get("acts_on", "")
    use = f'load_substrate("{substrate}"' + (', adapter=f"{place}/adapter"' if adapter else "")
    use += f', acts_on="{acts_on}")' if acts_on else ")"
    what, where = first.place
    # A state that has learned its step size, and was read with it, brings it along.
    own = first.step_size and run.settings.get("step_rate")
    rule = "" if own else f", rule=larc.{parse_rule(run.settings['rule'])!r}"
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
        *("", "## Evaluation", "", choice.finding, ""),
        *([choice.reason, ""] if choice.reason else []),
        *_tables(run),
        *("## Lineage", "", "```", command_of(run), "```", ""),
        *_rows(("Identity", "SHA-256"), _identities(run)),
        *("", "The whole manifest, the order of evidence and the configuration are in", ""),
        *("`lineage.json`.", "", "## Environment", ""),
        *_rows(("What", "Version"), _environment(run)),
        *("", "## Licence", "", "Apache-2.0, in `LICENSE`. The frozen model is not part of this "),
        "package and has terms of its own.",
    ]
    return "\n".join(parts) + "\n"


def _states(states: Sequence[SlowState]) -> list[str]:
    columns = ["Seed", "Slow updates", "Digest"]
    rows = [[str(slow.seed), str(slow.version), f"`{slow.digest}`"] for slow in states]
    if any(slow.step_size for slow in states):
        columns.append("Step size, learned")
        for row, slow in zip(rows, states, strict=True):
            row.append(f"{slow.step_size:.4g}" if slow.step_size else "–")
    return _rows(columns, rows)


def _tables(run: Run) -> list[str]:
    lines = []
    for path in sorted((run.path / "tables").glob("*.md")):
        if not path.stem.startswith(_COSTS):
            text = read_file(path).decode(errors="replace").strip()
            lines += [f"### {path.stem.capitalize()}", "", text, ""]
    return lines


def _identities(run: Run) -> list[tuple[str, str]]:
    manifest = run.manifest()
    rows = [("manifest", sha256(read_file(run.path / "manifest.json")))]
    for name, value in sorted(manifest.get("identities", {}).items()):
        found = value if isinstance(value, list) else [value]
        for one in found:
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
