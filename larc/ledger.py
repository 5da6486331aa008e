"""A count of the model work done: calls and positions, by operation and kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

KINDS = ("below", "mixer", "head", "backward")


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

    Examples
    --------
    >>> ledger = Ledger()
    >>> with ledger.operation("support"):
    ...     ledger.add("mixer", physical=16, effective=12)
    >>> ledger.total("mixer")
    Entry(calls=1, physical=16, effective=12)
    >>> sorted(ledger.entries)
    [('support', 'mixer')]
    """

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str], Entry] = {}
        self._operation = "other"

    def add(self, kind: str, physical: int, effective: int) -> None:
        """Charge one call to the operation under way."""
        entry = self.entries.setdefault((self._operation, kind), Entry())
        entry.calls += 1
        entry.physical += physical
        entry.effective += effective

    @contextmanager
    def operation(self, name: str) -> Iterator[None]:
        """Charge everything inside the block to one name."""
        outer, self._operation = self._operation, name
        try:
            yield
        finally:
            self._operation = outer

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
