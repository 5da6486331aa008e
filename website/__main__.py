"""``python -m website``: bring the pages and the picture up to date with the results."""

from __future__ import annotations

from website.picture import PICTURE, picture
from website.published import ROOT, pages, renewed


def main() -> None:
    """Write what differs, and say what was written."""
    fresh = {page: renewed(page.read_text(encoding="utf-8")) for page in pages()}
    for page, text in {**fresh, PICTURE: picture()}.items():
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(text, encoding="utf-8")
            print(f"{page.relative_to(ROOT)} was brought up to date")


if __name__ == "__main__":
    main()
