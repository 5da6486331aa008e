"""A count of the model work done: calls and positions, by operation and kind."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

KINDS = ("below", "mixer", "head", "backward")
CHECKED, RAISED = "checked", "raised"


@dataclass
class Entry:
    """What one kind of work cost within one operation.

    ``physical`` positions include padding, ``effective`` ones do not.
    """

    calls: int = 0
    physical: int = 0
    effective: int = 0


class Ledger:
    """Counts the work of a substrate: ``below`` and ``mixer`` forwards, ``head``, ``backward``.

    Beside the work it counts steps whose loss was ``checked`` afterwards, and ``raised``.

    Examples
    --------
    >>> ledger = Ledger()
    >>> with ledger.operation("support"):
    ...     ledger.add("mixer", physical=16, effective=12)
    >>> ledger.total("mixer")
    Entry(calls=1, physical=16, effective=12)
    >>> ledger
    <Ledger: 1 calls, 12 positions, rows untried>
    >>> sorted(ledger.entries), sorted(ledger.spent())
    ([('support', 'mixer')], ['other', 'support'])
    """

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str], Entry] = {}
        self.seconds: dict[str, float] = {}
        #: How candidates were laid out: packed into a shared row, plain, or both.
        self.layouts: set[str] = set()
        self._operation = "other"
        self._since = time.perf_counter()

    def __repr__(self) -> str:
        above = self.total("mixer")
        rows = " and ".join(sorted(self.layouts)) or "untried"
        return f"<Ledger: {above.calls} calls, {above.effective} positions, rows {rows}>"

    def add(self, kind: str, physical: int, effective: int) -> None:
        """Charge one call to the operation under way."""
        entry = self.entries.setdefault((self._operation, kind), Entry())
        entry.calls += 1
        entry.physical += physical
        entry.effective += effective

    def check(self, before: Sequence[float], after: Sequence[float | None]) -> None:
        """Count steps whose loss was looked at afterwards, and those of them that raised it."""
        for earlier, later in zip(before, after, strict=True):
            if later is not None:
                self.add(CHECKED, 0, 0)
                if later > earlier:
                    self.add(RAISED, 0, 0)

    @contextmanager
    def operation(self, name: str) -> Iterator[None]:
        """Charge everything inside the block, its time too, to one name."""
        outer = self._operation
        self._charge_time(name)
        try:
            yield
        finally:
            self._charge_time(outer)

    def _charge_time(self, now_doing: str) -> None:
        now = time.perf_counter()
        spent = self.seconds.get(self._operation, 0.0) + now - self._since
        self.seconds[self._operation] = spent
        self._operation, self._since = now_doing, now

    def clear(self) -> None:
        """Forget everything counted and begin a new clock."""
        self.entries.clear()
        self.layouts.clear()
        self.seconds.clear()
        self._since = time.perf_counter()

    def spent(self) -> dict[str, float]:
        """Return the seconds charged to each operation up to now; what no block names is other."""
        self._charge_time(self._operation)
        return dict(sorted(self.seconds.items()))

    def total(self, kind: str) -> Entry:
        """Return one kind's work summed over all operations."""
        chosen = [entry for (_, other), entry in self.entries.items() if other == kind]
        return Entry(
            sum(entry.calls for entry in chosen),
            sum(entry.physical for entry in chosen),
            sum(entry.effective for entry in chosen),
        )

    def load_rows(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Put saved rows in place of what was counted here.

        Examples
        --------
        >>> ledger = Ledger()
        >>> ledger.load_rows([{"operation": "query", "kind": "head", "calls": 1,
        ...                    "physical": 2, "effective": 2}])
        >>> ledger.total("head").physical
        2
        """
        self.entries = {
            (row["operation"], row["kind"]): Entry(row["calls"], row["physical"], row["effective"])
            for row in rows
        }

    def as_rows(self) -> list[dict[str, int | str]]:
        """Return the entries as plain rows, in a fixed order, for saving."""
        return [
            {"operation": operation, "kind": kind, **asdict(entry)}
            for (operation, kind), entry in sorted(self.entries.items())
        ]
