"""Listings of GitHub, read whole although they move while they are read.

A listing comes in pages. An entry that is added or deleted between two pages moves the others, so
that some come twice and some not at all. What gives it away is the count that each page carries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from larc.github.client import GitHub
from larc.github.replies import Item, Page, Trim

#: How often a listing that does not hold what it counts is read.
PASSES = 4
_PER_PAGE = 100


class State(Enum):
    """How far a listing can be trusted."""

    #: It holds as many entries as each of its pages counts.
    SETTLED = "settled"
    #: It came out the same in the end, and holds another number of entries than it counts.
    MISCOUNTED = "miscounted"
    #: It still came out differently the last time.
    SHIFTING = "shifting"
    #: It counts more entries than the server would give out.
    TOO_LONG = "too_long"


@dataclass(frozen=True, slots=True)
class Listing:
    """The pages of a listing as they were last read, and how far they can be trusted."""

    pages: tuple[Page, ...]
    state: State


def entries(pages: Sequence[Page]) -> dict[int, Item]:
    """Return the entries of pages by id: each once, as it was seen last.

    Examples
    --------
    >>> first = Page(2, [{"id": 8}], None, more=True)
    >>> entries([first, Page(2, [{"id": 8}, {"id": 7}], None, more=False)])
    {8: {'id': 8}, 7: {'id': 7}}
    """
    return {item["id"]: item for page in pages for item in page.items}


def read_listing(
    github: GitHub,
    path: str,
    parameters: Mapping[str, str | int],
    name: str,
    trim: Trim,
    known: Sequence[Page] = (),
    *,
    most: int | None = None,
    again: Callable[[int], object] = lambda turn: None,
) -> Listing:
    """Read all pages of a listing, again and again until they agree on what it holds.

    Parameters
    ----------
    github, path, parameters, name, trim
        As for :meth:`larc.github.client.GitHub.page`.
    known
        The pages as they were read before.
    most
        A listing that counts this many entries is not read to its end.
    again
        Called before the listing is read again, with the number of times it was read.

    Examples
    --------
    >>> import httpx
    >>> def answer(request):
    ...     here = [{"id": 9 - int(request.url.params["page"])}]
    ...     return httpx.Response(200, json={"total_count": 2, "jobs": here})
    >>> with GitHub("o/r", transport=httpx.MockTransport(answer)) as github:
    ...     listing = read_listing(github, "actions/runs/3/jobs", {}, "jobs", dict)
    >>> listing.state, sorted(entries(listing.pages))
    (<State.SETTLED: 'settled'>, [7, 8])
    """
    before: set[int] | None = None
    for turn in range(PASSES):
        if turn:
            again(turn)
        pages: list[Page] = []
        read, seen = 0, set[int]()
        while True:
            there = known[len(pages)] if len(pages) < len(known) else None
            query = {**parameters, "per_page": _PER_PAGE, "page": len(pages) + 1}
            page = github.page(path, query, name, trim, there)
            ids = {item["id"] for item in page.items}
            if ids and ids <= seen:  # the server repeats itself: it has no more, whatever it counts
                break
            pages.append(page)
            read, seen = read + len(page.items), seen | ids
            if most is not None and page.total >= most:
                return Listing(tuple(pages), State.TOO_LONG)
            # By the server's word or by the count, whichever promises more. No page is empty
            # before the last, so there are never more pages than entries.
            if not page.items or len(pages) >= page.total or not (page.more or read < page.total):
                break
        listed = set(entries(pages))
        # Every page must count the same: a deletion between two pages hides an entry, and the last
        # page alone would not show it.
        if {page.total for page in pages} == {len(listed)}:
            return Listing(tuple(pages), State.SETTLED)
        steady, before, known = listed == before, listed, pages
    return Listing(tuple(pages), State.MISCOUNTED if steady else State.SHIFTING)
