"""The same protocol on anybody's own episodes, from a JSONL file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from larc.errors import LarcError
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
    queries = [task.query or () for _, task in development]
    return TaskSet(
        training=training,
        development=[_without_query(task) for _, task in development],
        names=[f"line {number}" for number, _ in development],
        open_queries=lambda: queries,
        training_names=[f"line {number}" for number, _ in trained],
    )


def _parsed(row: Mapping[str, Any], number: int) -> tuple[int, str, Task]:
    allowed = {"prompt", "candidates", "support", "query", "group", "family", "split"}
    missing = [name for name in ("prompt", "candidates", "support", "query") if name not in row]
    if missing:
        raise LarcError(f"it has no {', '.join(missing)}.")
    unknown = sorted(set(row) - allowed)
    if unknown:
        raise LarcError(f"{', '.join(unknown)} is no field of a task.")
    if row.get("split", "training") not in SPLITS:
        raise LarcError(f"split {row['split']!r} is neither training nor development.")
    texts = row["candidates"]
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts) or not texts:
        raise LarcError("candidates is not a list of texts.")
    if len(set(texts)) < len(texts) or "" in texts:
        raise LarcError("a candidate is empty or given twice.")
    for name in ("prompt", "group", "family"):
        if not isinstance(row.get(name, ""), str):
            raise LarcError(f"{name} is not a text.")
    for name in ("support", "query"):
        numbers = row[name]
        if not isinstance(numbers, list) or any(
            isinstance(n, bool) or not isinstance(n, int | float) for n in numbers
        ):
            raise LarcError(f"{name} is not a list of numbers.")
    task = Task(
        row["prompt"],
        texts,
        row["support"],
        row["query"],
        row.get("group", ""),
        row.get("family", ""),
    )
    return number, row.get("split", "training"), task


def _without_query(task: Task) -> Task:
    return Task(task.prompt, task.candidates, task.support, None, task.group, task.family)


def _check_groups(path: str, training: list[Task], development: list[Task]) -> None:
    shared = {task.group for task in training} & {task.group for task in development} - {""}
    if shared:
        raise LarcError(
            f"{path} has group {min(shared)!r} in both splits; keep a group's tasks together."
        )
