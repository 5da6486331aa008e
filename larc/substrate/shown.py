"""Which state a model shows to its user, told apart by thread and by context."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

#: By the model's id, what it shows in this context.
_SHOWN: ContextVar[Mapping[int, Any]] = ContextVar("larc_shown", default={})  # noqa: B039


@contextmanager
def showing(model: object, state: Any) -> Iterator[None]:
    """Let a model show a state in this context; of nested blocks the innermost counts."""
    outer = _SHOWN.get()
    _SHOWN.set({**outer, id(model): state})
    try:
        yield
    finally:
        _SHOWN.set(outer)


def shown_by(model: int) -> Any:
    """Return what the model of an id shows in this context, if anything.

    Examples
    --------
    >>> model = object()
    >>> with showing(model, "outer"), showing(model, "inner"):
    ...     shown_by(id(model))
    'inner'
    """
    return _SHOWN.get().get(model)


@contextmanager
def showing_none() -> Iterator[None]:
    """Run models as they are, whatever they show around this block."""
    outer = _SHOWN.get()
    _SHOWN.set({})
    try:
        yield
    finally:
        _SHOWN.set(outer)
