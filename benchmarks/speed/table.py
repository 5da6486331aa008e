"""The table: rows as they were measured, the machine and the versions, as JSON and as Markdown."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.speed.timing import Spread, Timed, ratio
from larc.io.files import atomic_write

_VERSIONS = (
    "larc-lm",
    "torch",
    "transformers",
    "numpy",
    "peft",
    "higher",
    "pyreft",
    "pyvene",
    "river",
    "vowpalwabbit",
)


@dataclass(frozen=True)
class Measured:
    """One row: what was measured, the ratio with its spread, and what the ratio is of.

    ``numbers`` holds what stands behind it, for the JSON file: seconds, positions, bytes.
    """

    case: str
    ratio: Spread
    of: str
    note: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Missing:
    """A row that could not be measured here, and why."""

    case: str
    reason: str


@dataclass(frozen=True)
class Section:
    """One question of the table: its name on the command line, its title and what is compared."""

    name: str
    title: str
    sentence: str


Row = Measured | Missing


@dataclass(frozen=True)
class Table:
    """Everything one run of the benchmark found."""

    facts: Mapping[str, Any]
    sections: Sequence[tuple[Section, Sequence[Row]]]

    def to_json(self) -> str:
        """Return the table as JSON text."""
        sections = [
            {**asdict(section), "rows": [asdict(row) for row in rows]}
            for section, rows in self.sections
        ]
        content = {"facts": dict(self.facts), "sections": sections}
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"

    def to_markdown(self) -> str:
        """Return the table as Markdown, with the machine and the versions above it."""
        lines = [f"{self.made_with}\n"]
        for section, rows in self.sections:
            lines += [f"## {section.title}\n", f"{section.sentence}\n", rows_markdown(rows), ""]
        return "\n".join(lines)

    @property
    def made_with(self) -> str:
        """A sentence that says where, when and with what it was measured."""
        return _sentence(self.facts)

    @staticmethod
    def read(path: str | Path) -> Table:
        """Return the table that `save` wrote as JSON."""
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        sections = []
        for section in content["sections"]:
            rows = [
                Measured(**{**row, "ratio": Spread(**row["ratio"])})
                if "ratio" in row
                else Missing(**row)
                for row in section.pop("rows")
            ]
            sections.append((Section(**section), rows))
        return Table(content["facts"], sections)

    def save(self, path: str | Path) -> tuple[Path, Path]:
        """Write the Markdown to a path and the JSON beside it; returns both."""
        path = Path(path)
        beside = path.with_suffix(".json")
        atomic_write(path, self.to_markdown().encode())
        atomic_write(beside, self.to_json().encode())
        return path, beside


def rows_markdown(rows: Sequence[Row]) -> str:
    """Return rows as a Markdown table."""
    lines = ["| | ratio | lowest to highest | of | |", "| --- | --- | --- | --- | --- |"]
    return "\n".join([*lines, *map(_line, rows)])


def timed_row(
    case: str,
    times: Mapping[str, Timed],
    name: str,
    base: str,
    of: str,
    note: str = "",
    **more: Any,
) -> Measured:
    """Return the row of one alternative's time against another's."""
    numbers = {"seconds": times[name].seconds, "base_seconds": times[base].seconds, **more}
    return Measured(case, ratio(times[name], times[base]), of, note, numbers)


def _line(row: Row) -> str:
    if isinstance(row, Missing):
        return f"| {row.case} | – | – | – | not measured: {row.reason} |"
    spread = row.ratio
    low, high = _number(spread.low), _number(spread.high)
    return f"| {row.case} | **{_number(spread.value)}** | {low} to {high} | {row.of} | {row.note} |"


def _number(value: float) -> str:
    """Return a ratio with three digits that count.

    Examples
    --------
    >>> _number(17.234), _number(0.7123), _number(1234.5)
    ('17.2', '0.712', '1234')
    """
    if abs(value) >= 1000:
        return f"{value:.0f}"
    return f"{value:.3g}" if abs(value) >= 1 else f"{value:.3f}"


def machine_facts(**more: Any) -> dict[str, Any]:
    """Return what the numbers depend on: processor, cores, versions, and what is given."""
    import torch

    versions = {}
    for name in _VERSIONS:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "vector": torch.backends.cpu.get_cpu_capability(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": versions,
        **more,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _sentence(facts: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    return (
        f"Measured on {facts['processor']} ({facts['cores']} cores, {facts['threads']} threads, "
        f"{facts['vector']}, {facts['system']}) with Python {facts['python']}, {versions}; model "
        f"{facts['substrate']}; {facts['repetitions']} repetitions in turn, median of the ratios"
        f"{' of processor time' if facts.get('clock') == 'processor' else ''}; {facts['measured']}."
    )
