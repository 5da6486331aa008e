"""The one picture: how a state learns inside a frozen model, and what it was worth.

The right half is drawn from the saved predictions of a published run, a dot for each group.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from larc.evaluation import group_means
from larc.runs.run import Run
from larc.studies.episodic.results import EpisodicResults, load_results
from website.published import RESULTS, ROOT

PICTURE = ROOT / "docs" / "images" / "larc.svg"
RUN = "programs-best"
ARM = "exact"
# A card of its own colour: it can be read on any page, whatever that page's colours are.
_STYLE = """
svg { --card: #ffffff; --ink: #1c2330; --soft: #5b6475; --line: #c9cfda; --box: #f1f3f8;
      --slow: #2f5fc4; --fast: #c2410c; --frozen: #e4e8f0; }
@media (prefers-color-scheme: dark) {
  svg { --card: #161b24; --ink: #e8ebf2; --soft: #a3adbf; --line: #465064; --box: #222936;
        --slow: #8fb2ff; --fast: #ff9f68; --frozen: #2b3342; } }
text { font-family: system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif;
       font-size: 15px; fill: var(--ink); }
.t { font-size: 17px; font-weight: 600; } .s { font-size: 13.5px; fill: var(--soft); }
.m { text-anchor: middle; } .e { text-anchor: end; } .b { font-weight: 600; }
.slow { fill: var(--slow); } .fast { fill: var(--fast); }
.card { fill: var(--card); stroke: var(--line); } .box { fill: var(--box); stroke: var(--line); }
.frozen { fill: var(--frozen); stroke: var(--line); }
.bs { fill: var(--box); stroke: var(--slow); stroke-width: 2; }
.bf { fill: var(--box); stroke: var(--fast); stroke-width: 2; }
.a { fill: none; stroke: var(--soft); stroke-width: 1.8; }
.as { fill: none; stroke: var(--slow); stroke-width: 1.8; }
.af { fill: none; stroke: var(--fast); stroke-width: 1.8; stroke-dasharray: 5 4; }
.hs { fill: var(--slow); } .hf { fill: var(--fast); } .h { fill: var(--soft); }
.g { stroke: var(--line); stroke-width: 1; }
.dot { fill: var(--soft); fill-opacity: 0.55; } .dot.fast { fill: var(--fast); }
.mean { stroke: var(--ink); stroke-width: 3; } .mean.fast { stroke: var(--fast); }
"""
WIDTH, HEIGHT = 1000, 400
# Where the errors of 0 and of 100 % are, and the middle of each column.
_FLOOR, _CEILING, _COLUMNS = 330.0, 92.0, (752, 842, 932)


def picture() -> str:
    """Return the picture."""
    run = Run(RESULTS / RUN)
    results = load_results(run)
    title = "A frozen language model that learns from feedback in a low-rank state."
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
            f"<title>{title} {_said(results)}</title>",
            f"<style>{_STYLE}</style>",
            '<defs><marker id="h" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path class="h" d="M0 0 8 4 0 8z"/></marker>'
            '<marker id="hs" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path class="hs" d="M0 0 8 4 0 8z"/></marker>'
            '<marker id="hf" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path class="hf" d="M0 0 8 4 0 8z"/></marker></defs>',
            f'<rect class="card" x="1" y="1" width="{WIDTH - 2}" height="{HEIGHT - 2}" rx="14"/>',
            *_mechanism(run.settings["rank"]),
            *_result(results),
            "</svg>\n",
        ]
    )


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{text}</text>'


def _box(x: float, y: float, width: float, height: float, kind: str, *lines: str) -> list[str]:
    middle, first = x + width / 2, y + height / 2 + 5 - 10 * (len(lines) - 1)
    parts = [
        f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8"/>'
    ]
    for number, line in enumerate(lines):
        parts.append(_text(middle, first + 20 * number, line, "m" if number == 0 else "m s"))
    return parts


def _arrow(path: str, kind: str = "") -> str:
    return f'<path class="a{kind}" d="{path}" marker-end="url(#h{kind})"/>'


def _mechanism(rank: int) -> list[str]:
    """Draw the way from a question to a policy, and the way back of what feedback says."""
    return [
        _text(30, 42, "A frozen model, and a small state that learns", "t"),
        *_box(30, 218, 106, 60, "box", "question", "+ candidates"),
        *_box(168, 218, 96, 60, "frozen", "embed …", "frozen"),
        *_box(296, 218, 108, 60, "bf", "h + B A h", f"rank {rank}"),
        *_box(436, 218, 96, 60, "frozen", "… layers", "frozen"),
        *_box(564, 218, 92, 60, "box", "policy", "softmax"),
        *(_arrow(f"M{x} 248h{width}") for x, width in ((138, 27), (266, 27), (406, 27), (534, 27))),
        *_box(30, 96, 190, 62, "bs", "slow state ρ", "trained across tasks"),
        *_box(276, 96, 190, 62, "bf", "fast state Φ = (A, B)", "private to an episode"),
        _arrow("M222 116h51", "s"),
        _text(247, 108, "copy", "m s slow"),
        _arrow("M274 140h-51", "s"),
        _text(248, 158, "reset", "m s slow"),
        '<path class="as" style="stroke: var(--fast)" d="M350 160v55" marker-end="url(#hf)"/>',
        _arrow("M610 280v50h-226v-47", "f"),
        _text(497, 350, "loss of the feedback that has arrived,", "m s fast"),
        _text(497, 368, "its gradient through the frozen layers", "m s fast"),
        _text(482, 116, "read, update, reset,", "s"),
        _text(482, 136, "save and resume;", "s"),
        _text(482, 156, "many in one batch", "s"),
    ]


def _means(results: EpisodicResults, cell: str) -> list[float]:
    """Return the error of every group in one cell, seeds averaged, in percent."""
    risk = results.risk[ARM, cell].mean(0)[:, None]
    means = group_means(risk, list(results.families), list(results.groups))
    return [100 * float(value) for value in np.asarray(means.values)[:, 0]]


def _result(results: EpisodicResults) -> list[str]:
    """Draw the error of each group under three conditions, and their means."""
    groups = len(set(results.groups))
    parts = [
        '<path class="g" d="M680 30v340"/>',
        _text(702, 42, "Error on new cases, %", "t"),
        _text(702, 63, f"expected, {groups} development groups", "s"),
    ]
    for mark in (0, 50, 100):
        y = _height(mark)
        parts.append(f'<path class="g" d="M718 {y:g}H970"/>')
        parts.append(_text(712, y + 4, str(mark), "e s"))
    cells = (
        ("real_reset", "reset", ""),
        ("sham_keep", "sham, kept", ""),
        ("real_keep", "real, kept", " fast"),
    )
    for middle, (cell, name, kind) in zip(_COLUMNS, cells, strict=True):
        parts += _dots(middle, _means(results, cell), kind)
        mean = 100 * results.mean(results.risk[ARM, cell])
        y = _height(mean)
        parts.append(f'<path class="mean{kind}" d="M{middle - 30} {y:.1f}h60"/>')
        parts.append(_text(middle, _FLOOR + 38, f"{mean:.1f} %", f"m b{kind}"))
        parts.append(_text(middle, _FLOOR + 20, name, "m s"))
    return parts


def _dots(middle: float, values: Sequence[float], kind: str) -> list[str]:
    # Side by side in a fixed order, so that equal ones can be told apart.
    step = 44 / max(len(values) - 1, 1)
    return [
        f'<circle class="dot{kind}" cx="{middle - 22 + step * index:.1f}" '
        f'cy="{_height(value):.1f}" r="3.4"/>'
        for index, value in enumerate(values)
    ]


def _height(percent: float) -> float:
    return _FLOOR + (_CEILING - _FLOOR) * percent / 100


def _said(results: EpisodicResults) -> str:
    reset, sham, keep = (
        f"{100 * results.mean(results.risk[ARM, cell]):.1f} %"
        for cell in ("real_reset", "sham_keep", "real_keep")
    )
    return (
        f"Expected error on new cases: {reset} with the state reset, {sham} after sham feedback, "
        f"{keep} after real feedback."
    )
