"""Whether what a study will ask can be asked: found out before any training."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from larc.errors import LarcError
from larc.questions import Limits, ask
from larc.substrate import Substrate

_SHOWN = 5


def check_questions(
    substrate: Substrate, questions: Iterable[tuple[str, str, Sequence[str]]], limits: Limits
) -> None:
    """Refuse questions that cannot be asked, each by its name: names, prompts and candidates.

    Examples
    --------
    >>> from larc.substrate import load_substrate
    >>> check_questions(load_substrate("tiny"), [("line 3", "Which? ", ["a"])], Limits(prompt=2))
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: 1 question cannot be asked; change it, or --prompt-limit and
    --candidate-limit. line 3: the prompt has 7 tokens, over the limit of 2; shorten it or raise
    Limits(prompt=...), --prompt-limit in a study.
    """
    problems = []
    for name, prompt, candidates in questions:
        try:
            ask(substrate, prompt, candidates, limits)
        except LarcError as error:
            problems.append(f"{name}: {error}")
    if problems:
        more = f" (and {len(problems) - _SHOWN} more)" if len(problems) > _SHOWN else ""
        many = (
            "1 question cannot be asked; change it"
            if len(problems) == 1
            else (f"{len(problems)} questions cannot be asked; change them")
        )
        raise LarcError(
            f"{many}, or --prompt-limit and --candidate-limit. {' '.join(problems[:_SHOWN])}{more}"
        )
