"""The same protocol on anybody's own episodes, from a JSONL file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from larc.errors import LarcError
from larc.settings import setting
from larc.studies.options import EpisodicSettings, TaskSet
from larc.tasks import Task

KIND = "tasks"
SPLITS = ("training", "development")
_SHOWN = 5


@dataclass(frozen=True)
class TaskSettings(EpisodicSettings):
    """What decides the results of a study on one's own tasks."""

    tasks: str = setting(
        "", "A JSONL file: prompt, candidates, support, query, group, family and split per line."
    )


PRESETS = {
    "paper": TaskSettings(),
    "quick": TaskSettings(boundary=20, seeds=(2026092811,), updates=80),
    "smoke": TaskSettings(
        substrate="tiny", threads=1, rule="sgd:1.0", seeds=(2026092811,), updates=4
    ),
}


def own_tasks(settings: TaskSettings) -> TaskSet:
    """Read the file, naming every bad line before anything starts."""
    if not settings.tasks:
        raise LarcError("no tasks were given; name a file with --tasks FILE.jsonl.")
    try:
        lines = Path(settings.tasks).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise LarcError(f"{settings.tasks} could not be read ({error}).") from error
    rows: list[tuple[int, str, Task]] = []
    problems = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            rows.append((number, *_parsed(line)))
        except LarcError as error:
            problems.append(f"line {number}: {error}")
    if problems:
        more = f" (and {len(problems) - _SHOWN} more)" if len(problems) > _SHOWN else ""
        raise LarcError(f"{settings.tasks}: {' '.join(problems[:_SHOWN])}{more}")
    training = [task for _, split, task in rows if split == "training"]
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
    )


def _parsed(line: str) -> tuple[str, Task]:
    try:
        row: Any = json.loads(line)
    except (ValueError, RecursionError):
        raise LarcError("it is not JSON.") from None
    if not isinstance(row, Mapping):
        raise LarcError("it is not an object with a prompt, candidates, support and query.")
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
    return row.get("split", "training"), task


def _without_query(task: Task) -> Task:
    return Task(task.prompt, task.candidates, task.support, None, task.group, task.family)


def _check_groups(path: str, training: list[Task], development: list[Task]) -> None:
    shared = {task.group for task in training} & {task.group for task in development} - {""}
    if shared:
        raise LarcError(
            f"{path} has group {min(shared)!r} in both splits; keep a group's tasks together."
        )
