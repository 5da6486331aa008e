"""Numbers and tables for the pages, from the files of published runs.

A page asks for one with a comment, and what stands up to the next comment is written by code::

    <!-- from results: answer programs-quick -->
    ...
    <!-- end -->
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from larc.reporting.writing import drawings
from larc.runs.run import Run
from larc.studies.running import command_of
from website import sentences, tables
from website.architectures import families
from website.benchmarked import bench, counted
from website.conventions import overview, scored
from website.deciding import brief, deciding
from website.published import RESULTS, ROOT, published

#: Figures that pages show: of which published run, and which of its figures.
FIGURES = {
    **{
        ROOT / f"docs/images/cost-of-{what}.svg": (f"programs-{what}", "cost")
        for what in ("depth", "steps")
    },
    **{
        ROOT / f"docs/images/labels-seen-{data}.svg": (f"streams-{data}", "labels-seen")
        for data in ("commit_scope", "politeness")
    },
}
_BLOCK = re.compile(
    r"(?P<head><!-- from results: (?P<what>[^\n]+?) -->\n).*?(?P<end><!-- end -->)", re.DOTALL
)


def pages() -> list[Path]:
    """Return every page that may ask for numbers."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def renewed(page: str) -> str:
    r"""Return a page with everything it asks for as the results have it now.

    Examples
    --------
    >>> page = "<!-- from results: command programs-run -->\nold\n<!-- end -->"
    >>> print(renewed(page).splitlines()[3])
    $ larc study programs --preset quick
    """

    def written(match: re.Match[str]) -> str:
        name, *arguments = match["what"].split()
        return f"{match['head']}\n{_MAKERS[name](*arguments).strip()}\n\n{match['end']}"

    return _BLOCK.sub(written, page)


def figure(run: str, name: str) -> bytes:
    """Return a figure of a published run."""
    return drawings(published(run).report)[f"figures/{name}.svg"]


def _overview(first: str, *runs: str) -> str:
    """Return who decides best in published runs of private streams, over ``all`` or the first N."""
    return overview([RESULTS / run for run in runs], None if first == "all" else int(first))


def _scored(*runs: str) -> str:
    """Return what two scores came to in the choices of published runs of private streams."""
    return scored([RESULTS / run for run in runs])


def _command(run: str) -> str:
    return f"```console\n$ {command_of(Run(RESULTS / run))}\n```"


_MAKERS: dict[str, Callable[..., str]] = {
    "bench": bench,
    "brief": brief,
    "choice": tables.choice,
    "counted": counted,
    "deciding": deciding,
    "sweep": tables.sweep,
    "rule": sentences.rule,
    "answer": sentences.answer,
    "contrary": sentences.contrary,
    "headline": sentences.headline,
    "table": tables.table,
    "some": tables.some,
    "seeds": tables.seeds,
    "places": tables.places,
    "work": tables.work,
    "spent": tables.spent,
    "beside": tables.beside,
    "command": _command,
    "differs": tables.differs,
    "families": families,
    "overview": _overview,
    "scored": _scored,
    "trials": tables.trials,
}
