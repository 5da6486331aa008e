"""Formulas of a page as MathML, which browsers draw by themselves: no script, no network."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

# What the Markdown extension arithmatex makes of $...$ and of $$...$$.
_FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\\(?P<kind>[(\[])(?P<tex>.*?)\\[)\]]</\1>', re.DOTALL
)
# Signs of a formula that was not understood. Browsers know the variant "normal" and no other.
_UNKNOWN = re.compile(r'\\|<mi>&</mi>|mathvariant="(?!normal")')


def with_mathml(page: str) -> str:
    r"""Return a page's HTML with its formulas drawn.

    Examples
    --------
    >>> with_mathml(r'<span class="arithmatex">\(B A\)</span>').partition(">")[2]
    '<mrow><mi>B</mi><mi>A</mi></mrow></math>'
    >>> with_mathml(r'<span class="arithmatex">\(\nonsense\)</span>')
    Traceback (most recent call last):
    ...
    ValueError: \nonsense has parts that cannot be drawn; write it in other words
    """
    return _FORMULA.sub(_drawn, page)


def _drawn(match: re.Match[str]) -> str:
    tex = html.unescape(match["tex"]).strip()
    display = "block" if match["kind"] == "[" else "inline"
    drawn: str = convert(tex, display=display)
    if _UNKNOWN.search(drawn):
        raise ValueError(f"{tex} has parts that cannot be drawn; write it in other words")
    # A box of its own, which scrolls where a formula is wider than a phone.
    return f'<div class="formula" tabindex="0">{drawn}</div>' if display == "block" else drawn
