"""What lies beside the archives for a person to look at: reports in Markdown, and tables on pages.

Both follow from the archives; `python -m website` writes them and a test makes them again.
"""

from __future__ import annotations

import re
from pathlib import Path

from website.pages import pages
from website.published import RESULTS, published, table_text

_TABLE = re.compile(r"<!-- from results: (?:table|beside|some) (\S+) (\S+)")


def summaries() -> dict[Path, bytes]:
    """Return the report of every published run, and the tables that pages show, by their files."""
    files = {}
    for archive in sorted(RESULTS.glob("*.larc")):
        report = published(archive.stem).documents()["report.md"]
        files[RESULTS / archive.stem / "report.md"] = report
    for run, table in sorted(shown_tables()):
        files[RESULTS / run / "tables" / f"{table}.csv"] = table_text(run, table).encode()
    return files


def shown_tables() -> set[tuple[str, str]]:
    """Return the runs and tables that pages show as they were published.

    Examples
    --------
    >>> ("ci", "replay") in shown_tables()
    True
    """
    texts = [page.read_text(encoding="utf-8") for page in pages()]
    return {match.groups() for text in texts for match in _TABLE.finditer(text)}  # type: ignore[misc]  # two groups
