"""Whole streams for training, validation and test, and the questions that are asked of each."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from larc.errors import LarcError
from larc.stream.question import Question, Recorded, with_labels
from larc.studies.streams.reading import Item, read_streams
from larc.studies.streams.settings import SYNTHETIC, StreamsSettings
from larc.studies.streams.synthetic import synthetic_streams

Stream = tuple[Recorded, ...]
Part = Literal["training", "validation", "test"]
PARTS: tuple[Part, ...] = ("training", "validation", "test")
_SALT = "larc streams 1"


@dataclass(frozen=True)
class DataSet:
    """The streams of one file in three parts, none of which shares a stream with another.

    Attributes
    ----------
    name
        The file's, without what it ends in.
    training, validation, test
        The streams that are used, each as its questions in order.
    counts
        How many streams and questions there are in each part, how many are used and, where there
        are some, how many of these have no label: they are asked, and in no score.
    names
        The streams of each part, also those beyond its cap.
    """

    name: str
    training: tuple[Stream, ...]
    validation: tuple[Stream, ...]
    test: tuple[Stream, ...]
    counts: Mapping[str, Mapping[str, int]]
    names: Mapping[str, Sequence[str]]


def data_sets(settings: StreamsSettings) -> tuple[DataSet, ...]:
    """Read every file and divide its streams, refusing whatever could not be carried out."""
    from larc.rules import parse_rule  # loads torch

    if not settings.data:
        raise LarcError(
            "no data were given; name files with --data FILE.jsonl, or make some up with --preset "
            "smoke."
        )
    for rule in (*settings.rules, settings.stream_rule):
        parse_rule(rule)
    sets = []
    for path in settings.data:
        streams = synthetic_streams() if path == SYNTHETIC else read_streams(path)
        sets.append(divide(set_name(path), streams, settings))
    names = [one.name for one in sets]
    if len(set(names)) < len(names):
        raise LarcError(f"two files are called alike: {', '.join(names)}; rename one.")
    return tuple(sets)


def set_name(path: str) -> str:
    """Return what a file's data set is called.

    Examples
    --------
    >>> set_name("data/commit_scope.dev.jsonl.gz")
    'commit_scope.dev'
    """
    name = Path(path).name
    for ending in (".gz", ".jsonl", ".json"):
        name = name.removesuffix(ending)
    return name


def divide(name: str, streams: Mapping[str, Sequence[Item]], settings: StreamsSettings) -> DataSet:
    """Divide streams by a hash of their names, and cut each part to its caps.

    Examples
    --------
    >>> from larc.studies.streams.settings import PRESETS
    >>> parts = divide("synthetic", synthetic_streams(), PRESETS["smoke"])
    >>> [len(part) for part in (parts.training, parts.validation, parts.test)]
    [5, 2, 3]
    >>> parts.counts["test"]
    {'streams': 4, 'questions': 96, 'used_streams': 3, 'used_questions': 30}
    """
    caps = {
        "training": (settings.training_streams, settings.training_questions),
        "validation": (settings.validation_streams, settings.validation_questions),
        "test": (settings.test_streams, settings.test_questions),
    }
    used: dict[str, tuple[Stream, ...]] = {}
    counts: dict[str, dict[str, int]] = {}
    parts = part_names(list(streams), settings)
    names = {str(part): members for part, members in parts.items()}
    for part, members in parts.items():
        most, questions = caps[part]
        chosen = members[: most or None]
        asked = [recorded(streams[stream], settings) for stream in chosen]
        if part == "training":  # a question without a label teaches nothing
            asked = [tuple(with_labels(stream)) for stream in asked]
        used[part] = tuple(stream[: questions or None] for stream in asked)
        for stream, items in zip(chosen, used[part], strict=True):
            _check_labels(name, part, stream, items)
        counts[part] = {
            "streams": len(members),
            "questions": sum(len(streams[stream]) for stream in members),
            "used_streams": len(chosen),
            "used_questions": sum(map(len, used[part])),
        }
        unlabelled = sum(len(items) - len(with_labels(items)) for items in used[part])
        if unlabelled:
            counts[part]["unlabelled"] = unlabelled
    return DataSet(name, used["training"], used["validation"], used["test"], counts, names)


def _check_labels(name: str, part: str, stream: str, items: Stream) -> None:
    """Refuse a stream that would be used and has no label."""
    if not with_labels(items):
        raise LarcError(
            f"{name}: none of the {len(items)} questions of {stream!r} that {part} would use has "
            "a label, so nothing can be learned or scored there; leave the stream out."
        )


def part_names(names: Sequence[str], settings: StreamsSettings) -> dict[Part, list[str]]:
    """Return the streams of each part, in the order of a hash of their names.

    Streams that were looked at are for validation first. With a start that is applied as it is,
    nothing is trained or chosen, and all others are for the test.

    Examples
    --------
    >>> from larc.studies.streams.settings import StreamsSettings
    >>> names = [f"s{number}" for number in range(10)]
    >>> parts = part_names(names, StreamsSettings(looked_at=("s3",)))
    >>> parts["validation"][0], [len(members) for members in parts.values()]
    ('s3', [4, 2, 4])
    """
    order = sorted(names, key=_hash)
    looked_at = [name for name in order if name in settings.looked_at]
    rest = [name for name in order if name not in settings.looked_at]
    if settings.start:
        if not rest:
            raise LarcError(
                "every stream was looked at, or used to make the start; give streams that are new."
            )
        return {"training": [], "validation": looked_at, "test": rest}
    validation = max(round(settings.validation_share * len(order)), len(looked_at), 1)
    test = max(round(settings.test_share * len(order)), 1)
    more = validation - len(looked_at)
    parts: dict[Part, list[str]] = {
        "training": rest[more + test :],
        "validation": [*looked_at, *rest[:more]],
        "test": rest[more : more + test],
    }
    for part, members in parts.items():
        if not members:
            raise LarcError(
                f"of {len(order)} streams none is left for {part}; give more streams, or other "
                "--validation-share and --test-share."
            )
    return parts


def _hash(name: str) -> str:
    return hashlib.sha256(f"{_SALT}\0{name}".encode()).hexdigest()


def recorded(items: Sequence[Item], settings: StreamsSettings) -> Stream:
    """Return the questions of a stream with their labels, asked in order, labels by the delay.

    Examples
    --------
    >>> from larc.studies.streams.settings import PRESETS, StreamsSettings
    >>> items = synthetic_streams()["synthetic-site-00"]
    >>> late = recorded(items, StreamsSettings(delay="10"))[1]
    >>> late.asked, late.arrives
    (1.0, 11.5)
    """
    return tuple(
        Recorded(
            Question(item.name, item.candidates, put(item, settings.prompt), item.text),
            *_times(item, number, settings.delay),
            item.label,
            item.stream,
            item.name,
        )
        for number, item in enumerate(items)
    )


def put(item: Item, template: str) -> str:
    r"""Return the prompt of an item.

    Examples
    --------
    >>> put(Item("s", "a", "Hello {you}", ("yes", "no"), 0), "{text}\nOne of {candidates}: ")
    'Hello {you}\nOne of yes, no: '
    """
    values = {"text": item.text, "candidates": ", ".join(item.candidates)}
    # In one pass: a text may hold braces of its own.
    return re.sub(r"\{(text|candidates)\}", lambda field: values[field[1]], template)


def _times(item: Item, number: int, delay: str) -> tuple[float, float | None]:
    """Return when an item is asked and when its label arrives, if it has one."""
    if delay == "data" or delay.endswith("s"):
        if item.time is None:
            raise LarcError(
                f"{item.name!r} of {item.stream!r} has no time, which --delay {delay} needs."
            )
        if item.label is None:
            return item.time, None
        if delay == "data" and item.arrival is None:
            raise LarcError(
                f"{item.name!r} of {item.stream!r} has no arrival, which --delay data needs."
            )
        late = item.time + float(delay[:-1]) if delay != "data" else item.arrival
        assert late is not None
        return item.time, late
    # Just before the question after the next N: at once is before the next.
    late = None if item.label is None else number + int(delay) + 0.5
    return float(number), late
