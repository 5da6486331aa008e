"""Checks of what a session is given, before anything is changed."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from larc.checks import text
from larc.errors import ConflictingLabel, DuplicateLabel, LarcError, NeverAsked
from larc.state import SlowState
from larc.stream.awaited import PastLabel, Pending
from larc.stream.log import LearningLog
from larc.stream.prompter import PlainPrompter, Prompter
from larc.stream.question import LabelIs, LabelValue, Question, Recorded, resolved
from larc.stream.strategies import Strategy

T = TypeVar("T")
_PROMPTER = ("prompts", "learn", "pack", "unpack", "state", "restore", "size")


def of_type(value: Any, kind: type[T], what: str) -> T:
    """Return a value, refusing one of another type.

    Examples
    --------
    >>> of_type("x", int, "count")
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: the count is of type str; give an int.
    """
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "aeiouAEIOU" else "a"
        raise LarcError(
            f"the {what} is of type {type(value).__name__}; give {article} {kind.__name__}."
        )
    return value


def checked_strategies(strategies: Any) -> tuple[Strategy, ...]:
    """Return strategies, refusing none at all and two of one name."""
    given = _each(strategies, Strategy, "strategies")
    if not given:
        raise LarcError("no strategies were given; give at least one.")
    if len({strategy.name for strategy in given}) < len(given):
        raise LarcError("two strategies have one name; name each differently.")
    return given


def checked_questions(questions: Any) -> tuple[Question, ...]:
    """Return questions, refusing what is none."""
    return _each(questions, Question, "questions")


def checked_prompter(prompter: Any) -> Prompter:
    """Return a prompter, the plain one by default, refusing what lacks a method of one."""
    if prompter is None:
        return PlainPrompter()
    missing = [name for name in _PROMPTER if not hasattr(prompter, name)]
    if missing or isinstance(prompter, type):
        problem = f"has no {missing[0]}" if missing else "is a class"
        raise LarcError(
            f"the prompter {prompter!r} {problem}; give an object as larc.Prompter describes."
        )
    chosen: Prompter = prompter
    return chosen


def checked_starts(starts: Any) -> Mapping[str, SlowState]:
    """Return slow states by name, refusing what is none."""
    if starts is None:
        return {}
    if not isinstance(starts, Mapping):
        raise LarcError('the starts come by their names; give {"name": slow state}.')
    for name, slow in starts.items():
        of_type(slow, SlowState, f"start {name!r}")
    return starts


def among(strategies: tuple[Strategy, ...], only: Collection[str] | None) -> tuple[Strategy, ...]:
    """Return the strategies of some names, or all."""
    if only is None:
        return strategies
    names = [strategy.name for strategy in strategies]
    if isinstance(only, str | bytes) or not isinstance(only, Iterable):
        raise LarcError(f"only={only!r} was given; give a list of strategies' names.")
    only = list(only)
    for name in only:
        if name not in names:
            raise LarcError(f"there is no strategy {name!r}; give some of {', '.join(names)}.")
    return tuple(strategy for strategy in strategies if strategy.name in only)


def checked_names(names: Any) -> set[str]:
    """Return names, refusing one text and what is none."""
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise LarcError(f"the names {names!r} are no list; give a list of questions' names.")
    given = list(names)
    for name in given:
        if not isinstance(name, str):
            raise LarcError(f"{name!r} is no name of a question; give texts.")
    return set(given)


def check_new(pending: Mapping[str, Any], name: str) -> None:
    """Refuse a question whose name is awaited already."""
    if name in pending:
        raise LarcError(f"{name!r} is asked already; name each question differently.")


def checked_prompts(
    prompter: Prompter, question: Question, strategies: Sequence[Strategy]
) -> dict[str, str]:
    """Return a question's prompts, refusing one that a strategy cannot be asked."""
    prompts = dict(prompter.prompts(question))
    for strategy in strategies:
        if strategy.view not in prompts:
            raise LarcError(
                f"strategy {strategy.name!r} reads the view {strategy.view!r}, and the prompter "
                f"has {', '.join(prompts)}; give one of those."
            )
        if strategy.offsets and len(strategy.offsets) != len(question.candidates):
            raise LarcError(
                f"strategy {strategy.name!r} has {len(strategy.offsets)} offsets, and "
                f"{question.name!r} has {len(question.candidates)} candidates."
            )
    return prompts


def checked_label(
    name: str,
    label: LabelValue,
    pending: Mapping[str, Pending],
    labelled: Mapping[str, PastLabel],
) -> LabelIs:
    """Return a label that can be learned as an index or losses; refusals say why it cannot."""
    if name in pending:
        candidates = pending[name].question.candidates
        if not candidates:
            raise LarcError(
                f"the file this session was restored from did not keep the candidates of {name!r}; "
                "restore it with questions=[...]."
            )
        return resolved(name, candidates, label)
    if name not in labelled:
        raise NeverAsked(
            name,
            f"the label of {name!r} arrived, but it was never asked, or it was dropped or is long "
            "forgotten; ask it first.",
        )
    past = labelled[name]
    if resolved(name, past.candidates, label) == past.value:
        raise DuplicateLabel(name, f"the label of {name!r} arrived again; it is learned already.")
    raise ConflictingLabel(
        name,
        f"another label of {name!r} arrived, {label!r} and not {past.shown!r}; if the first was "
        "wrong, call correct.",
    )


def checked_correction(
    name: str,
    label: LabelValue,
    pending: Mapping[str, Pending],
    labelled: Mapping[str, PastLabel],
) -> LabelIs:
    """Return the right label of a name that was labelled otherwise; refusals say why not."""
    text(name, "the name of a question")
    if name in pending:
        raise LarcError(f"the label of {name!r} is still awaited; learn it.")
    try:
        return checked_label(name, label, pending, labelled)
    except ConflictingLabel:
        return resolved(name, labelled[name].candidates, label)


def check_retraction(
    name: str,
    pending: Mapping[str, Pending],
    labelled: Mapping[str, PastLabel],
    log: LearningLog,
) -> None:
    """Refuse to take back a label that never came, or that nothing can unlearn."""
    text(name, "the name of a question")
    if name in pending:
        raise LarcError(f"the label of {name!r} is still awaited; drop it if it never comes.")
    if name not in labelled:
        raise NeverAsked(
            name, f"nothing is known of a label of {name!r}; there is none to retract."
        )
    if not log.reaching(name):
        raise LarcError(
            f"the log does not reach back to the label of {name!r}, and a state cannot unlearn; "
            "restore a file saved before it, or keep a larger log (SessionLimits(log=...))."
        )


def without_labels(questions: Sequence[Any]) -> list[Question]:
    """Return the questions; one that comes with its label is what version 0.1 was asked with."""
    try:
        given = list(questions)
    except TypeError:
        return questions  # type: ignore[return-value]  # refused where it is checked
    if any(isinstance(one, Recorded) for one in given):
        warnings.warn(
            "a question is asked without its label: give larc.Question; items that carry one are "
            "no longer taken from version 0.3 on.",
            DeprecationWarning,
            stacklevel=3,
        )
    return [one.question if isinstance(one, Recorded) else one for one in given]


def _each(values: Any, kind: type[T], what: str) -> tuple[T, ...]:
    if isinstance(values, kind | str) or not isinstance(values, Iterable):
        raise LarcError(
            f"the {what} are of type {type(values).__name__}; give a list of larc.{kind.__name__}."
        )
    given: Sequence[Any] = tuple(values)
    for value in given:
        if not isinstance(value, kind):
            raise LarcError(
                f"one of the {what} is of type {type(value).__name__}; give larc.{kind.__name__}."
            )
    return tuple(given)
