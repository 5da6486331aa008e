"""Running the whole table, or a part of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from benchmarks.speed import (
    boundary,
    exact,
    experts,
    growth,
    limit,
    live,
    memory,
    outer,
    precision,
    reads,
    replay,
    session,
    states,
)
from benchmarks.speed.setting import Setting
from benchmarks.speed.table import Row, Section, Table, machine_facts
from larc.errors import LarcError

SECTIONS: tuple[tuple[Section, Callable[[Setting], list[Row]]], ...] = tuple(
    (module.SECTION, module.rows)
    for module in (
        *(outer, reads, boundary, replay, limit, growth, memory, precision),
        *(exact, live, states, experts, session),
    )
)


def chosen(names: Sequence[str]) -> list[tuple[Section, Callable[[Setting], list[Row]]]]:
    """Return the sections of some names, or all of them.

    Examples
    --------
    >>> [section.title for section, _ in chosen(["limit"])]
    ["5. The machine's limit"]
    >>> chosen(["speed"])
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: there is no section 'speed'; there are outer, reads, boundary, ...
    """
    known = {section.name for section, _ in SECTIONS}
    for name in names:
        if name not in known:
            there = ", ".join(section.name for section, _ in SECTIONS)
            raise LarcError(f"there is no section {name!r}; there are {there}.")
    return [pair for pair in SECTIONS if not names or pair[0].name in names]


def measure(
    setting: Setting, names: Sequence[str] = (), say: Callable[[str], None] = print
) -> Table:
    """Measure the sections one after the other, saying which is under way."""
    started = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    sections = []
    for section, rows in chosen(names):
        begun = time.perf_counter()
        say(f"{section.title} …")
        sections.append((section, rows(setting)))
        say(f"  {time.perf_counter() - begun:.0f} s")
    facts = machine_facts(
        substrate=setting.substrate.name,
        repetitions=setting.repetitions,
        quick=setting.quick,
        clock="processor" if setting.clock is time.process_time else "wall",
        measured=f"{started} UTC",
    )
    return Table(facts, sections)
