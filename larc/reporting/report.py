"""A report: what was asked, the answer, and the tables and figures that show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from larc.reporting.charts import Figure
from larc.reporting.tables import Table


@dataclass(frozen=True)
class Report:
    """What a study says of a run.

    A study gives this much, made from what its run saved. Settings, command, cost and provenance
    are the same for all runs, and are added where the report is written.

    Parameters
    ----------
    title
        What the page is headed with.
    question
        What was asked, in one sentence.
    answer
        The answer in one sentence, with its interval.
    tables, figures
        What shows it, the most telling first.
    notes
        What a reader has to know to not misread it, a sentence or two each.
    """

    title: str
    question: str
    answer: str
    tables: Sequence[Table]
    figures: Sequence[Figure] = ()
    notes: Sequence[str] = ()
