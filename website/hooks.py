"""What MkDocs calls while it builds the pages."""

from __future__ import annotations

from typing import Any

from website.mathml import with_mathml


def on_page_content(html: str, **_: Any) -> str:
    """Draw a page's formulas."""
    return with_mathml(html)
