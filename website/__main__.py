"""``python -m website``: bring the pages and their pictures up to date with the results."""

from __future__ import annotations

from website.pages import FIGURES, figure, pages, renewed
from website.picture import PICTURE, picture
from website.published import ROOT
from website.summaries import summaries


def main() -> None:
    """Write what differs, and say what was written."""
    fresh = {page: renewed(page.read_text(encoding="utf-8")).encode() for page in pages()}
    drawn = {shown: figure(*which) for shown, which in FIGURES.items()}
    for page, content in {**fresh, PICTURE: picture().encode(), **drawn, **summaries()}.items():
        if not page.exists() or page.read_bytes() != content:
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_bytes(content)
            print(f"{page.relative_to(ROOT)} was brought up to date")


if __name__ == "__main__":
    main()
