"""Strategies: the ways in which a state may live along a stream."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, get_args

from larc.errors import LarcError

if TYPE_CHECKING:  # a strategy can be described without a model
    from larc.rules import UpdateRule

Retention = Literal["reset", "keep", "latest"]


@dataclass(frozen=True)
class Strategy:
    """One way to answer a stream's questions.

    Attributes
    ----------
    name
        What it is called in the results.
    view
        Which of the prompter's prompts it reads and learns from.
    retention
        ``keep`` keeps what every batch of feedback taught; ``latest`` starts from the slow state
        before each batch; ``reset`` reads the slow state and learns nothing.
    start
        Which of the session's slow states it starts from.
    sham
        Learn from labels moved by a fresh permutation per question: the sham control.
    offsets
        A fixed bias added to the candidates' energies, in reading and in learning.
    scale
        What an update's realised difference of the factors is multiplied by; moments and private
        offsets are what the whole update makes of them.
    rule
        The rule its updates follow: an object, or a text as `larc.rules.parse_rule` reads it; the
        session's by default.

    Examples
    --------
    >>> Strategy("careful", rule="descent:0.1").learns
    True
    >>> Strategy("x", retention="Reset")
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: strategy 'x' has the retention 'Reset'; give reset, keep or latest.
    """

    name: str
    view: str = "plain"
    retention: Retention = "keep"
    start: str = "trained"
    sham: bool = False
    offsets: tuple[float, ...] = ()
    scale: float = 1.0
    rule: str | UpdateRule = ""

    def __post_init__(self) -> None:
        for field in ("name", "view", "start"):
            value = getattr(self, field)
            if not isinstance(value, str) or not value:
                raise LarcError(f"a strategy has the {field} {value!r}; give a text.")
        if not isinstance(self.sham, bool):
            raise LarcError(f"strategy {self.name!r} has sham={self.sham!r}; give True or False.")
        if not isinstance(self.retention, str) or self.retention not in get_args(Retention):
            raise LarcError(
                f"strategy {self.name!r} has the retention {self.retention!r}; give reset, keep or "
                "latest."
            )
        object.__setattr__(self, "offsets", self._numbers("offsets", self.offsets))
        (scale,) = self._numbers("a scale", (self.scale,))
        object.__setattr__(self, "scale", scale)
        if not all(math.isfinite(number) for number in (self.scale, *self.offsets)):
            raise LarcError(f"strategy {self.name!r} has a number that is not finite.")
        if self.scale <= 0:
            raise LarcError(f"strategy {self.name!r} has the scale {self.scale}; give one above 0.")

        self._check_rule()

    def _numbers(self, what: str, values: Any) -> tuple[float, ...]:
        try:
            if isinstance(values, str | bytes) or any(isinstance(v, bool | str) for v in values):
                raise TypeError
            return tuple(float(value) for value in values)
        except (TypeError, ValueError, OverflowError):
            raise LarcError(
                f"strategy {self.name!r} has {what} of {values!r}; give numbers."
            ) from None

    def _check_rule(self) -> None:
        """Refuse a rule that is none; a text is read when a session is made."""
        if isinstance(self.rule, str):
            return
        if isinstance(self.rule, type) or not callable(getattr(self.rule, "step", None)):
            raise LarcError(
                f"strategy {self.name!r} has the rule {self.rule!r}; give a larc.UpdateRule, or a "
                "text such as sgd:0.1."
            )

    def __repr__(self) -> str:
        told = {
            one.name: getattr(self, one.name)
            for one in fields(self)[1:]
            if getattr(self, one.name) != one.default
        }
        shown = "".join(f", {name}={value!r}" for name, value in told.items())
        return f"Strategy({self.name!r}{shown})"

    @property
    def learns(self) -> bool:
        """Whether feedback changes it."""
        return self.retention != "reset"

    def facts(self) -> dict[str, Any]:
        """Return it as plain values, to be saved and compared."""
        from larc.rules import rule_facts

        return {
            "name": self.name,
            "view": self.view,
            "retention": self.retention,
            "start": self.start,
            "sham": self.sham,
            "offsets": list(self.offsets),
            "scale": self.scale,
            "rule": self.rule if isinstance(self.rule, str) else rule_facts(self.rule),
        }
