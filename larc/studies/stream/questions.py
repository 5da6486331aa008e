"""Which questions the stream study is about: a user's own, or a small synthetic stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from larc.errors import LarcError
from larc.stream.question import Question, Recorded, with_labels
from larc.studies.stream.events import read_events
from larc.studies.stream.settings import SYNTHETIC, StreamSettings


@dataclass(frozen=True)
class Questions:
    """A stream in its parts.

    Attributes
    ----------
    training
        Questions of the training part whose labels arrive before the first audit question.
    late
        Those of the training part whose labels arrive only then or later. No training sees them;
        in the audit they are feedback like any other.
    audit
        The questions that are predicted and, where they have a label, scored.
    unanswered, shared
        How many of the training part never get a label, and how many of either part are left out
        because their group is in both.
    """

    training: tuple[Recorded, ...]
    late: tuple[Recorded, ...]
    audit: tuple[Recorded, ...]
    unanswered: int
    shared: int

    @property
    def counts(self) -> dict[str, int]:
        """How many questions there are of each kind; together they are all that were read."""
        scored = len(with_labels(self.audit))
        counts = {
            "training": len(self.training),
            "late": len(self.late),
            "unanswered": self.unanswered,
            "shared": self.shared,
            "audit": scored,
        }
        unlabelled = len(self.audit) - scored
        return {**counts, "unlabelled": unlabelled} if unlabelled else counts


def stream_questions(settings: StreamSettings) -> Questions:
    """Read the questions and divide them, refusing whatever could not be carried out."""
    from larc.rules import parse_rule  # loads torch
    from larc.stream.experts import make_expert
    from larc.stream.prompter import make_prompter

    if not settings.events:
        raise LarcError(
            "no events were given; name a file with --events FILE.jsonl, or make some up with "
            "--preset smoke."
        )
    parse_rule(settings.rule)
    make_prompter(settings.prompter)
    for text in settings.experts:
        make_expert(text)
    if settings.events == SYNTHETIC:
        return divide(synthetic_stream(), settings.train)
    return divide(read_events(settings.events), settings.train)


def divide(items: Sequence[Recorded], train: int) -> Questions:
    """Divide questions by when they are asked; a group that would be in both parts is in neither.

    Examples
    --------
    >>> parts = divide(synthetic_stream(), train=16)
    >>> parts.counts
    {'training': 10, 'late': 4, 'unanswered': 0, 'shared': 6, 'audit': 28}
    >>> first = min(item.asked for item in parts.audit)
    >>> max(item.arrives for item in parts.training) < first
    True
    """
    ordered = sorted(items, key=lambda item: (item.asked, item.stream, item.name))
    before, after = ordered[: max(train, 0)], ordered[max(train, 0) :]
    both = {_group(item) for item in before} & {_group(item) for item in after}
    asked, audit = ([item for item in part if _group(item) not in both] for part in (before, after))
    if not asked or not audit:
        raise LarcError(
            f"of {len(items)} questions, --train {train} leaves {len(asked)} for training and "
            f"{len(audit)} for the audit, without the groups that have questions in both; each "
            "needs some."
        )
    if not with_labels(audit):
        raise LarcError(
            f"none of the {len(audit)} questions of the audit has a label, so nothing can be "
            "scored; give labels, or a smaller --train."
        )
    # What arrives when a question is asked comes after it.
    since = min(item.asked for item in audit)
    training = tuple(i for i in asked if i.arrives is not None and i.arrives < since)
    late = tuple(i for i in asked if i.arrives is not None and i.arrives >= since)
    if not training:
        raise LarcError(
            f"no label of the {len(asked)} training questions arrives before the audit's first "
            "question is asked; give a larger --train."
        )
    unanswered = len(asked) - len(training) - len(late)
    shared = len(items) - len(asked) - len(audit)
    return Questions(training, late, tuple(audit), unanswered, shared)


def _group(item: Recorded) -> tuple[str, str]:
    return (item.stream, item.group)


def synthetic_stream(count: int = 48, seed: int = 20260929) -> list[Recorded]:
    """Return a small made-up stream, called synthetic wherever it appears.

    Lamps come on by a rule that differs between two sites, and some of them by chance: there is
    something to learn, and it arrives late.

    Examples
    --------
    >>> item = synthetic_stream()[0]
    >>> item.name, item.stream, item.question.candidates
    ('synthetic-000', 'synthetic/north', ('red', 'green', 'amber'))
    """
    draw = np.random.default_rng(seed)
    items = []
    clock = 0
    for number in range(count):
        # Several questions are asked at one time, and several labels arrive at one.
        clock += 10 * int(draw.integers(0, 3))
        site = ("north", "south")[number % 2]
        sensor = int(draw.integers(4))
        candidates = ("red", "green", "amber")[: 3 if sensor else 2]
        ruled = (sensor + number % 2) % len(candidates)
        arrives = float(clock + 10 * int(draw.integers(1, 12)))
        label = ruled if draw.random() < 0.8 else int(draw.integers(len(candidates)))
        prompt = f"Synthetic sensor {sensor} rose. The lamp that comes on is "
        items.append(
            Recorded(
                Question(f"synthetic-{number:03}", candidates, prompt),
                asked=float(clock),
                arrives=arrives,
                label=label,
                stream=f"synthetic/{site}",
                group=f"hour {clock // 60}",
            )
        )
    return items
