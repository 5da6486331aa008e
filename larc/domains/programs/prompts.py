"""Prompts: the public question of a group, without feedback or with it written out.

Both end with a line break after ``Program:``, so a candidate's text, which starts with neither a
space nor a line break, is the next line.
"""

from __future__ import annotations

from collections.abc import Sequence

from larc.domains.programs.groups import Group
from larc.domains.programs.recipes import CLIP_BOUNDS
from larc.feedback import checked_losses

_QUESTION = "Operations run left to right. Which program made the outputs?\nProgram:\n"


def policy_prompt(group: Group) -> str:
    """Return the question: family, public parameters and candidates. It holds no feedback.

    It depends on the group alone, so what is learned in an episode can reach the answer through
    the fast state only.

    Examples
    --------
    >>> print(policy_prompt(Group("arithmetic", (2, 3))), end="")
    Family: arithmetic
    Parameters: scale 2, offset 3, clip -16 16
    Programs:
    mul 2|add 3
    add 3|mul 2
    clip -16 16|mul 2|add 3
    mul 2|clip -16 16|add 3
    Operations run left to right. Which program made the outputs?
    Program:
    """
    return _prompt(group, "Programs:", group.candidates)


def feedback_prompt(group: Group, losses: Sequence[float]) -> str:
    """Return the same question with the observed loss of each candidate written beside it.

    This is the text baseline: the model reads the feedback instead of learning from it.

    Examples
    --------
    >>> print(feedback_prompt(Group("arithmetic", (2, 3)), [0, 1, 1 / 2, 1 / 3]), end="")
    Family: arithmetic
    Parameters: scale 2, offset 3, clip -16 16
    Programs, each with its fraction of wrong outputs:
    mul 2|add 3: 0
    add 3|mul 2: 1
    clip -16 16|mul 2|add 3: 0.5
    mul 2|clip -16 16|add 3: 0.333
    Operations run left to right. Which program made the outputs?
    Program:
    """
    observed = checked_losses(losses, len(group.candidates))
    lines = [f"{text}: {loss:.3g}" for text, loss in zip(group.candidates, observed, strict=True)]
    return _prompt(group, "Programs, each with its fraction of wrong outputs:", lines)


def _prompt(group: Group, heading: str, lines: Sequence[str]) -> str:
    first, second = group.pair
    if group.family == "arithmetic":
        lower, upper = CLIP_BOUNDS
        parameters = f"scale {first}, offset {second}, clip {lower} {upper}"
    else:
        parameters = f"minimum {first}, limit {second}, suffix {group.suffix}"
    opening = [f"Family: {group.family}", f"Parameters: {parameters}", heading]
    return "\n".join([*opening, *lines, _QUESTION])
