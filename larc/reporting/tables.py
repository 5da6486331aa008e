"""Tables in Markdown, LaTeX, CSV and HTML, from one description."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

Cell = str | int | float | None
_NUMBERS = re.compile(r"[-−+–\d.,\s%\[\]]+")


@dataclass(frozen=True)
class Table:
    """A table: columns with a number of digits for their figures, and rows.

    Examples
    --------
    >>> table = Table("gains", "What it was worth.", ("arm", "G"), (("static", 24.65),), digits=1)
    >>> print(table.markdown())
    | arm | G |
    | :--- | ---: |
    | static | 24.6 |
    <BLANKLINE>
    What it was worth.
    <BLANKLINE>
    """

    name: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    digits: int = 2

    def _text(self, cell: Cell) -> str:
        if cell is None:
            return "–"
        if isinstance(cell, float):
            text = f"{cell:.{self.digits}f}"
            # A rounded negative zero is zero.
            return text.lstrip("-") if float(text) == 0 else text
        return f"{cell:,}" if isinstance(cell, int) else cell

    def markdown(self) -> str:
        """Return the table in Markdown, its caption below."""
        figures = [self._is_figure(index) for index in range(len(self.columns))]
        lines = [
            _row(self.columns),
            _row("---:" if figure else ":---" for figure in figures),
            *(_row(self._text(cell) for cell in row) for row in self.rows),
        ]
        return "\n".join(lines) + f"\n\n{self.caption}\n"

    def latex(self) -> str:
        """Return the table in LaTeX (booktabs)."""
        figures = [self._is_figure(index) for index in range(len(self.columns))]
        layout = "".join("r" if figure else "l" for figure in figures)
        body = [" & ".join(_escape(self._text(cell)) for cell in row) + r" \\" for row in self.rows]
        return "\n".join(
            [
                r"\begin{table}[ht]",
                r"\centering\small",
                rf"\begin{{tabular}}{{{layout}}}\toprule",
                " & ".join(map(_escape, self.columns)) + r" \\\midrule",
                *body,
                r"\bottomrule\end{tabular}",
                rf"\caption{{{_escape(self.caption)}}}",
                rf"\label{{tab:{self.name}}}",
                r"\end{table}",
                "",
            ]
        )

    def csv(self) -> str:
        """Return the table as comma-separated values, figures with six decimals."""
        sink = io.StringIO()
        writer = csv.writer(sink, lineterminator="\n")
        writer.writerow(self.columns)
        for row in self.rows:
            writer.writerow(
                ["" if c is None else f"{c:.6f}" if isinstance(c, float) else c for c in row]
            )
        return sink.getvalue()

    def html(self) -> str:
        """Return the table in HTML, without its caption; columns have a class by what they hold."""
        texts = [[self._text(cell) for cell in row] for row in self.rows]
        classes = [_html_class(column) for column in zip(*texts, strict=True)]
        classes = classes or [""] * len(self.columns)
        head = "".join(
            f'<th scope="col"{attribute}>{escape(name)}</th>'
            for name, attribute in zip(self.columns, classes, strict=True)
        )
        body = ""
        for row in texts:
            cells = [
                f"<td{attribute}>{escape(text)}</td>"
                for text, attribute in zip(row[1:], classes[1:], strict=True)
            ]
            body += f'<tr><th scope="row"{classes[0]}>{escape(row[0])}</th>{"".join(cells)}</tr>\n'
        return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n"

    def _is_figure(self, column: int) -> bool:
        return any(isinstance(row[column], int | float) for row in self.rows)


def _html_class(column: Sequence[str]) -> str:
    # An interval is read as numbers are, and so is what is missing among them.
    if all(map(_NUMBERS.fullmatch, column)):
        return ' class="number"'
    return ' class="prose"' if max(map(len, column)) > 60 else ""


def _row(cells: Iterable[str]) -> str:
    # A bar would end the cell.
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _escape(text: str) -> str:
    for plain, escaped in (("\\", r"\textbackslash{}"), ("%", r"\%"), ("_", r"\_"), ("&", r"\&")):
        text = text.replace(plain, escaped)
    return text.replace("#", r"\#").replace("–", "--").replace("Δ", r"$\Delta$")
