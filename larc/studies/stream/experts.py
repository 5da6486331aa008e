"""Several experts as one, for a replay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from larc.errors import LarcError
from larc.stream.experts import Expert
from larc.stream.question import Labelled, Question


class Together:
    """Answers with every expert, each under its own names.

    Examples
    --------
    >>> from larc.stream.experts import LabelFrequency
    >>> Together([LabelFrequency()]).ask([Question("a", ("up", "down"))])
    {'PRIOR': [[0.5, 0.5]]}
    """

    def __init__(self, experts: Sequence[Expert]) -> None:
        self.experts = tuple(experts)
        self.names = tuple(name for expert in experts for name in expert.names)
        if len(set(self.names)) < len(self.names):
            raise LarcError("two experts answer under one name; give each its own.")

    def ask(self, questions: Sequence[Question]) -> dict[str, Any]:
        """Return what each expert says to questions asked now."""
        answers: dict[str, Any] = {}
        for expert in self.experts:
            answers |= expert.ask(questions)
        return answers

    def learn(self, labelled: Sequence[Labelled]) -> None:
        """Let each expert learn."""
        for expert in self.experts:
            expert.learn(labelled)

    def state(self) -> Any:
        """Return the state of each expert; of one alone its own."""
        states = [expert.state() for expert in self.experts]
        return states[0] if len(states) == 1 else states

    def restore(self, state: Any) -> None:
        """Go back to a saved state."""
        states = [state] if len(self.experts) == 1 else state
        for expert, saved in zip(self.experts, states, strict=True):
            expert.restore(saved)
