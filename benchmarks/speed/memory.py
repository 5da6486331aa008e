"""The peak memory of an outer update with and without activation checkpointing."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.speed.outer import ours
from benchmarks.speed.setting import Setting
from benchmarks.speed.table import Measured, Row, Section, timed_row
from benchmarks.speed.timing import Spread, peak_bytes

SECTION = Section(
    "memory",
    "7. Memory",
    "The outer update of section 1 with activations kept, and computed again in the backward pass "
    "(`load_substrate(..., checkpointing=True)`).",
)


def rows(setting: Setting) -> list[Row]:
    """Measure both, by time and by the most bytes that tensors occupied."""
    substrate, gradient = setting.substrate, ours(setting)

    def run(checkpointing: bool) -> Callable[[], object]:
        def once() -> object:
            before, substrate.checkpointing = substrate.checkpointing, checkpointing
            try:
                return gradient()
            finally:
                substrate.checkpointing = before

        return once

    kept, again = run(False), run(True)
    times = setting.alternate({"kept": kept, "again": again})
    peaks = {"kept": peak_bytes(kept), "again": peak_bytes(again)}
    share = peaks["again"] / peaks["kept"]
    case = "activation checkpointing"
    return [
        Measured(
            case,
            Spread(share, share, share),
            "its peak memory over that without",
            f"{peaks['kept'] / 2**20:.0f} MB without",
            {"bytes": peaks},
        ),
        timed_row(case, times, "again", "kept", "its time over that without"),
    ]
