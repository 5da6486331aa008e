"""What GitHub is to show of a commit: one neutral check run or status, changed in place."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from larc.service.github.tables import job, output

#: What the check run or status is called; of one name there is one for a commit.
NAME = "LARC"
#: The most jobs that are listed.
_LISTED = 50
_MARKS = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|~@&:])")


@dataclass(frozen=True)
class Shown:
    """What is shown: a title, and a summary in Markdown."""

    title: str
    summary: str

    @property
    def digest(self) -> str:
        """A name for exactly this."""
        return hashlib.sha256(json.dumps([self.title, self.summary]).encode()).hexdigest()


def mark(connection: Connection, repository: int, commit: str) -> None:
    """Say that what is shown of a commit may have changed."""
    whose = (output.c.repository == repository) & (output.c.commit == commit)
    changed = connection.execute(
        sa.update(output).where(whose).values(changed=output.c.changed + 1)
    )
    if changed.rowcount == 0:
        connection.execute(
            sa.insert(output).values(
                repository=repository, commit=commit, changed=1, shown=0, failures=0, next_at=0.0
            )
        )


def escaped(text: str) -> str:
    r"""Return a text that Markdown shows as it is, on one line.

    Examples
    --------
    >>> print(escaped("[click](x) | @all"))
    \[click\]\(x\) \| \@all
    """
    return _MARKS.sub(r"\\\1", " ".join(text.split()))


def compose(connection: Connection, repository: int, commit: str, surprise: float) -> Shown | None:
    """Return what is to be shown of a commit, or nothing where no job of it was predicted."""
    query = sa.select(job).where(
        job.c.repository == repository, job.c.commit == commit, job.c.risk.is_not(None)
    )
    rows = connection.execute(query).all()
    if not rows:
        return None
    running = sorted((one for one in rows if one.state == "asked"), key=lambda one: -one.risk)
    ended = sorted((one for one in rows if one.label is not None), key=lambda one: one.id)
    surprises = [one for one in ended if _probability(one) < surprise]
    if running:
        first = running[0]
        title = f"{len(running)} running, {first.name[:60]} fails with {first.risk:.0%}"
    else:
        title = f"{len(ended)} ended"
    if surprises:
        title += f", {len(surprises)} surprising"
    lines = [
        "How jobs of this commit are expected to end, from earlier ones. It blocks nothing.",
        "",
        "| Job | Probability of failure | End |",
        "| --- | --- | --- |",
    ]
    for one in [*running, *ended][:_LISTED]:
        end = "" if one.label is None else escaped(one.conclusion)
        end += " (surprising)" if one in surprises else ""
        lines.append(f"| {escaped(one.name[:100])} | {one.risk:.0%} | {end} |")
    if len(rows) > _LISTED:
        lines.append(f"\nand {len(rows) - _LISTED} more.")
    return Shown(title, "\n".join(lines))


def _probability(row: Row[Any]) -> float:
    return float(json.loads(row.probabilities)[row.label])
