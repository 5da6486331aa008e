"""The same protocol on anybody's own episodes, from a JSONL file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from larc.errors import LarcError
from larc.feedback import CandidateLosses, Feedback, Label
from larc.io.jsonl import read_objects
from larc.studies.episodic.settings import TaskSet
from larc.studies.tasks.settings import TaskSettings
from larc.tasks import Task

SPLITS = ("training", "development")


def own_tasks(settings: TaskSettings) -> TaskSet:
    """Read the file, naming every bad line before anything starts."""
    if not settings.tasks:
        raise LarcError("no tasks were given; name a file with --tasks FILE.jsonl.")
    rows = read_objects(settings.tasks, _parsed)
    trained = [(number, task) for number, split, task in rows if split == "training"]
    training = [task for _, task in trained]
    development = [(number, task) for number, split, task in rows if split == "development"]
    if not training or not development:
        raise LarcError(
            f"{settings.tasks} has {len(training)} training and {len(development)} development "
            "tasks; it needs some of each."
        )
    _check_groups(settings.tasks, training, [task for _, task in development])
    return TaskSet(
        training=training,
        development=[task.closed() for _, task in development],
        names=[f"line {number}" for number, _ in development],
        open_queries=lambda: [[q.losses for q in task.queries] for _, task in development],
        training_names=[f"line {number}" for number, _ in trained],
    )


def _parsed(row: Mapping[str, Any], number: int) -> tuple[int, str, Task]:
    many = "prompt" not in row and "candidates" not in row and _nested(row.get("support"))
    needed = ("support", "query") if many else ("prompt", "candidates", "support", "query")
    missing = [name for name in needed if name not in row]
    if missing:
        raise LarcError(f"it has no {', '.join(missing)}.")
    unknown = sorted(set(row) - {*needed, "group", "family", "split"})
    if unknown:
        raise LarcError(f"{', '.join(unknown)} is no field of a task.")
    if row.get("split", "training") not in SPLITS:
        raise LarcError(f"split {row['split']!r} is neither training nor development.")
    for name in ("prompt", "group", "family"):
        if not isinstance(row.get(name, ""), str):
            raise LarcError(f"{name} is not a text.")
    group, family = row.get("group", ""), row.get("family", "")
    if many:
        task = Task(
            support=[_batch(batch, number) for number, batch in enumerate(row["support"])],
            query=_pieces(row["query"], "query"),
            group=group,
            family=family,
        )
    else:
        texts = _candidates(row)
        support, query = (_numbers(row, name) for name in ("support", "query"))
        task = Task(row["prompt"], texts, support, query, group, family)
    return number, row.get("split", "training"), task


def _nested(support: Any) -> bool:
    """Whether support is of many questions: it holds objects, or lists, and no numbers."""
    return isinstance(support, list) and all(isinstance(part, list | dict) for part in support)


def _batch(batch: Any, number: int) -> list[Feedback]:
    # A piece that stands alone is a batch by itself.
    return _pieces([batch] if isinstance(batch, dict) else batch, f"support {number}")


def _pieces(pieces: Any, where: str) -> list[Feedback]:
    if not isinstance(pieces, list):
        raise LarcError(f"{where} is not a list of questions with their labels or losses.")
    parsed = []
    for number, piece in enumerate(pieces):
        try:
            parsed.append(_piece(piece))
        except LarcError as error:
            raise LarcError(f"{where}, question {number}: {error}") from None
    return parsed


def _piece(piece: Any) -> Feedback:
    if not isinstance(piece, dict):
        raise LarcError("it is not an object with prompt, candidates and label or losses.")
    missing = [name for name in ("prompt", "candidates") if name not in piece]
    if missing:
        raise LarcError(f"it has no {', '.join(missing)}.")
    if ("label" in piece) == ("losses" in piece):
        raise LarcError("it needs either a label or losses.")
    unknown = sorted(set(piece) - {"prompt", "candidates", "label", "losses"})
    if unknown:
        raise LarcError(f"{', '.join(unknown)} is no field of a question.")
    if not isinstance(piece["prompt"], str):
        raise LarcError("prompt is not a text.")
    texts = _candidates(piece)
    if "losses" in piece:
        return CandidateLosses(piece["prompt"], texts, _numbers(piece, "losses"))
    label = piece["label"]
    if isinstance(label, str):
        if label not in texts:
            raise LarcError(f"the label {label!r} is none of its candidates.")
        label = texts.index(label)
    return Label(piece["prompt"], texts, label)


def _candidates(row: Mapping[str, Any]) -> list[str]:
    texts = row["candidates"]
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts) or not texts:
        raise LarcError("candidates is not a list of texts.")
    if len(set(texts)) < len(texts) or "" in texts:
        raise LarcError("a candidate is empty or given twice.")
    return texts


def _numbers(row: Mapping[str, Any], name: str) -> list[float]:
    numbers = row[name]
    if not isinstance(numbers, list) or any(
        isinstance(n, bool) or not isinstance(n, int | float) for n in numbers
    ):
        raise LarcError(f"{name} is not a list of numbers.")
    return numbers


def _check_groups(path: str, training: list[Task], development: list[Task]) -> None:
    shared = {task.group for task in training} & {task.group for task in development} - {""}
    if shared:
        raise LarcError(
            f"{path} has group {min(shared)!r} in both splits; keep a group's tasks together."
        )
