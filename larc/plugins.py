"""One's own rules, prompters and experts: by a registered name, or as ``module:Class``."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from larc.errors import LarcError, reason

_NAMED = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def is_object_name(text: str) -> bool:
    """Whether a text names an object of a module.

    Examples
    --------
    >>> is_object_name("my_rules:Momentum"), is_object_name("sgd:0.1")
    (True, False)
    """
    return _NAMED.fullmatch(text) is not None


def load_object(text: str, what: str) -> Any:
    """Return the object that ``module:name`` names; modules of the current directory are found too.

    Examples
    --------
    >>> load_object("fractions:Fraction", "rule")
    <class 'fractions.Fraction'>
    >>> load_object("fractions:Fractoin", "rule")
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: the rule 'fractions:Fractoin' is not there (module 'fractions' has no
    attribute 'Fractoin'); write module:Class, for a module that can be imported here.
    """
    module, _, name = text.partition(":")
    try:
        with _current_directory():
            return getattr(importlib.import_module(module), name)
    except Exception as error:  # whatever a module of somebody's own may raise
        raise LarcError(
            f"the {what} {text!r} is not there ({reason(error)}); write module:Class, for a module "
            "that can be imported here."
        ) from error


@contextmanager
def _current_directory() -> Iterator[None]:
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        yield
    finally:
        if here in sys.path:
            sys.path.remove(here)
