"""One page per run, ``report.html``: whole in itself, it asks nothing of the network."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from larc.reporting import svg
from larc.reporting.charts import Chart, Figure, Rows
from larc.reporting.report import Report
from larc.reporting.scales import tick_text
from larc.reporting.svg_parts import sample
from larc.reporting.tables import Cell, Table

ASSETS = Path(__file__).parent / "assets"
TALL = 16  # a table of more rows scrolls
HALF = '<circle cx="8" cy="8" r="6.5"/><path d="M8 1.5a6.5 6.5 0 0 0 0 13Z"/>'


@dataclass(frozen=True)
class Facts:
    """What a page says of its run besides the report: how it was made, with what, at what cost."""

    command: str
    settings: Sequence[tuple[str, Any, str]]
    cost: Sequence[Table] = ()
    made_with: Sequence[Mapping[str, Any]] = ()
    evidence: Sequence[Mapping[str, Any]] = ()
    runs: Sequence[str] = ()


def page(report: Report, facts: Facts) -> str:
    """Return the page of a report; the same report and facts give the same page.

    Examples
    --------
    >>> document = page(Report("A study", "Does it help?", "It helped.", []), Facts("larc", []))
    >>> document.startswith("<!doctype html>"), "It helped." in document
    (True, True)
    """
    style = (ASSETS / "page.css").read_text(encoding="utf-8")
    script = (ASSETS / "page.js").read_text(encoding="utf-8")
    sections = list(_sections(report, facts))
    links = "".join(f'<a href="#{name}">{title}</a>' for name, title, _ in sections)
    body = "".join(
        f'<section id="{name}">\n<h2>{title}</h2>\n{content}</section>\n'
        for name, title, content in sections
    )
    notes = "".join(f'<p class="notes">{_prose(note)}</p>\n' for note in report.notes)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{_policy(script)}">
<title>{escape(report.title)}</title>
<meta name="description" content="{escape(report.answer)}">
<link rel="icon" href="data:,">
<style>
{style}</style>
</head>
<body>
<header class="top"><span><b>LARC</b> report</span>
<button id="theme" type="button" title="Light or dark" aria-label="Switch between light and dark">\
<svg viewBox="0 0 16 16" aria-hidden="true">{HALF}</svg></button></header>
<main>
<h1>{escape(report.title)}</h1>
<p class="answer">{_answer(report.answer)}</p>
<div class="asked">
<p>{_prose(report.question)}</p>
{notes}</div>
<nav aria-label="Contents">{links}</nav>
{body}</main>
<footer>Made by <code>larc report</code> from what the run saved, and from nothing else.</footer>
<div id="tip" role="status" hidden></div>
<script>{script}</script>
</body>
</html>
"""


def _prose(text: str) -> str:
    """Return escaped text whose per cents stay with their numbers."""
    return re.sub(r"(\d) %", "\\1\u00a0%", escape(text))


def _answer(text: str) -> str:
    """Return the answer with numbers in brackets, its interval, set back a little."""
    return re.sub(r"\([^()]*\d[^()]*\)", lambda match: f"<span>{match[0]}</span>", _prose(text))


def _policy(script: str) -> str:
    """Return a policy by which a browser refuses any request and any script but the page's own."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )


def _sections(report: Report, facts: Facts) -> Iterator[tuple[str, str, str]]:
    """Yield the name, title and content of each section that has any."""
    first, others = report.figures[:1], report.figures[1:]
    for name, title, parts in (
        # The most telling picture before the tables, the others after them.
        ("result", "The result", map(figure_html, first)),
        ("tables", "Tables", map(table_html, report.tables)),
        ("figures", "Figures", map(figure_html, others)),
        ("runs", "Runs", [_runs(facts.runs)] if facts.runs else []),
        ("settings", "Settings", [_settings(facts)] if facts.settings else []),
        ("cost", "Cost", map(table_html, facts.cost)),
        ("command", "Command", [f"<pre>{escape(facts.command)}</pre>\n"] if facts.command else []),
        ("provenance", "Provenance", [_provenance(facts)]),
    ):
        content = "".join(parts)
        if content:
            yield name, title, content


def table_html(table: Table) -> str:
    """Return a table under its name, in a box that scrolls by itself."""
    name = table.name.replace("-", " ").capitalize()
    caption = f'<p class="caption">{_prose(table.caption)}</p>\n' if table.caption else ""
    return f"<h3>{escape(name)}</h3>\n{_boxed(table)}{caption}"


def _boxed(table: Table) -> str:
    tall = " tall" if len(table.rows) > TALL else ""
    label = escape(table.name.replace("-", " "))
    return (
        f'<div class="scroll{tall}" tabindex="0" role="region" aria-label="Table: {label}">\n'
        f"{table.html()}</div>\n"
    )


def figure_html(figure: Figure) -> str:
    """Return a figure: its key, its panels, its caption, and its values as tables."""
    looks = figure.looks()
    named = {name for panel in figure.panels if not isinstance(panel, Rows) for name in panel.names}
    keyed = [name for name in looks if name not in named]
    entries = "".join(f"<li>{sample(looks[name])}{escape(name)}</li>" for name in keyed)
    key = f'<ul class="key">{entries}</ul>\n' if len(keyed) > 1 else ""
    panels = "".join(
        f'<div class="panel"><h3>{escape(panel.title)}</h3>\n{drawn}</div>\n'
        for panel, drawn in zip(figure.panels, svg.draw(figure), strict=True)
    )
    values = "".join(_boxed(values_table(panel)) for panel in figure.panels)
    return (
        f'<figure id="figure-{escape(figure.name)}">\n{key}<div class="panels">\n{panels}</div>\n'
        f'<figcaption class="caption">{_prose(figure.caption)}</figcaption>\n'
        f"<details><summary>Values</summary>\n{values}</details>\n</figure>\n"
    )


def values_table(panel: Chart) -> Table:
    """Return what a chart shows as a table; of long lines, the places that are told on the chart.

    Examples
    --------
    >>> from larc.reporting.charts import Value
    >>> values_table(Rows("Gains", "Points", [Value("G", 4.0, 3.0, 5.0)])).rows
    [['G', 4.0, '[3.00, 5.00]']]
    """
    rows: list[list[Cell]] = []
    if isinstance(panel, Rows):
        parts: dict[str, list[Cell]] = {
            "Series": [value.series or None for value in panel.values],
            "From": [value.start for value in panel.values],
            "Value": [value.value for value in panel.values],
            "Interval": [
                None
                if value.lower is None or value.upper is None
                else f"[{value.lower:.{panel.digits}f}, {value.upper:.{panel.digits}f}]"
                for value in panel.values
            ],
        }
        filled = {
            name: column for name, column in parts.items() if any(v is not None for v in column)
        }
        for index, value in enumerate(panel.values):
            rows.append([value.row, *(column[index] for column in filled.values())])
        return Table(panel.title, "", (panel.label, *filled), rows, panel.digits)
    clear = [line for line in panel.lines if len(line.x) and not line.faint]
    labelled = any(line.labels for line in clear)
    if panel.square or labelled:  # points of their own, not places along a line
        for line in clear:
            facts: Sequence[Cell] = line.labels or line.counts or [None] * len(line.x)
            points = zip(line.x, line.y, facts, strict=True)
            rows += [[svg.name(line), *point] for point in points]
        columns = ("Line", panel.x_label, panel.y_label, "Which" if labelled else "Predictions")
        return Table(panel.title, "", columns, rows, panel.digits)
    for x in svg.stops(clear):
        label = panel.names[round(x)] if panel.names else tick_text(x, [x])
        rows.append([label, *svg.values_at(clear, x)])
    along = (panel.x_label, *(svg.name(line) or panel.y_label for line in clear))
    return Table(panel.title, "", along, rows, panel.digits)


def _settings(facts: Facts) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(name.replace("_", "-"))}</th>'
        f'<td class="code">{escape(shown(value))}</td>'
        f'<td class="prose">{escape(description)}</td></tr>\n'
        for name, value, description in facts.settings
    )
    head = '<th scope="col">Setting</th><th scope="col">Value</th><th scope="col">What it is</th>'
    return (
        f"<details><summary>{len(facts.settings)} settings</summary>\n"
        '<div class="scroll" tabindex="0" role="region" aria-label="Table: settings">\n'
        f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n"
        "</div></details>\n"
    )


def shown(value: Any) -> str:
    """Return a setting's value as a reader would write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(shown, value)) or "none"
    if isinstance(value, dict):
        return "; ".join(f"{name} {shown(part)}" for name, part in value.items())
    return str(value) if value not in ("", None) else "none"


def _runs(names: Sequence[str]) -> str:
    entries = "".join(
        f'<li><a href="{escape(quote(name))}/report.html">{escape(name)}</a></li>\n'
        for name in names
    )
    return f"<ul>\n{entries}</ul>\n"


def _provenance(facts: Facts) -> str:
    parts = []
    for number, versions in enumerate(facts.made_with, start=1):
        rows = list(_flat(versions))
        which = f" ({number} of {len(facts.made_with)})" if len(facts.made_with) > 1 else ""
        parts.append(_pairs(f"Versions and identities{which}", rows))
    if facts.evidence:
        rows = [(entry["event"], entry["previous"] or "the first") for entry in facts.evidence]
        parts.append(
            _pairs("Order of evidence, each event with the hash of what came before", rows)
        )
    return "".join(f"<details><summary>{t}</summary>\n{c}</details>\n" for t, c in parts)


def _flat(facts: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name} ")
        else:
            yield f"{before}{name}", shown(value)


def _pairs(title: str, pairs: Sequence[tuple[str, str]]) -> tuple[str, str]:
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td class="code">{escape(value)}</td></tr>\n'
        for name, value in pairs
    )
    label = escape(title)
    return label, (
        f'<div class="scroll" tabindex="0" role="region" aria-label="Table: {label}">\n'
        f"<table>\n<tbody>\n{rows}</tbody>\n</table>\n</div>"
    )
