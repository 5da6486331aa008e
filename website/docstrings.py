"""A small help to Griffe, which reads the docstrings for the API page."""

from __future__ import annotations

import re
from typing import Any

import griffe

# Names that share one description: "device, dtype" on a line of its own, then indented text.
_SHARED = re.compile(
    r"^(?P<names>\w+(?:, \w+)+)\n(?P<text>(?:[ ]+\S.*\n?|\n(?=[ ]))+)", re.MULTILINE
)


def apart(docstring: str) -> str:
    r"""Give every name of a shared description an entry of its own.

    Griffe would show all of them with the type of the first.

    Examples
    --------
    >>> apart("device, dtype\n    Where it runs, and how.\n").splitlines()[::2]
    ['device', 'dtype']
    """

    def entries(match: re.Match[str]) -> str:
        text = match["text"].rstrip("\n")
        return "".join(f"{name}\n{text}\n" for name in match["names"].split(", "))

    return _SHARED.sub(entries, docstring)


class Apart(griffe.Extension):
    """Does so in everything that is read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Take shared descriptions of one object apart."""
        if obj.docstring:
            obj.docstring.value = apart(obj.docstring.value)
