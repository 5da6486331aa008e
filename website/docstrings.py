"""A small help to Griffe, which reads the docstrings for the API page."""

from __future__ import annotations

import re
from typing import Any

import griffe

# Names that share one description: "device, dtype" on a line of its own, then indented text.
_SHARED = re.compile(
    r"^(?P<names>\w+(?:, \w+)+)\n(?P<told>(?:[ ]+\S.*\n?|\n(?=[ ]))+)", re.MULTILINE
)


def apart(docstring: str) -> str:
    r"""Give every name of a shared description an entry of its own.

    Griffe would show all of them with the type of the first.

    Examples
    --------
    >>> apart("device, dtype\n    Where it runs, and how.\n").splitlines()[::2]
    ['device', 'dtype']
    """

    def entries(found: re.Match[str]) -> str:
        told = found["told"].rstrip("\n")
        return "".join(f"{name}\n{told}\n" for name in found["names"].split(", "))

    return _SHARED.sub(entries, docstring)


class Apart(griffe.Extension):
    """Does so in everything that is read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Take shared descriptions of one object apart."""
        if obj.docstring:
            obj.docstring.value = apart(obj.docstring.value)
