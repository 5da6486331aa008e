"""Records for the readers to read: jobs, tasks, streams, settings, and an ingest under way."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.torture import live
from larc.domains.ci import read_jobs
from larc.domains.ci.split import load_queue
from larc.domains.ci.synthetic import synthetic_jobs
from larc.github.fetching import fetch_jobs
from larc.settings import as_values, build, read_yaml
from larc.studies.programs.settings import PRESETS, ProgramSettings
from larc.studies.stream.events import read_events
from larc.studies.tasks.reading import own_tasks
from larc.studies.tasks.settings import TaskSettings

# Job histories, tasks, streams, settings ---------------------------------------------------------


def _rows() -> list[dict[str, Any]]:
    names = ("success", "failure", "cancelled", "skipped")
    rows = [job._asdict() for job in synthetic_jobs(12, seed=1)]
    return [{**row, "conclusion": names[row.pop("label")]} for row in rows]


def _lines(rows: Any) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _answers() -> list[dict[str, Any]]:
    run = {"id": 3, "workflow_id": 5, "path": "ci.yml", "event": "push", "jobs_url": "u"}
    job = {
        **{"id": 7, "run_id": 3, "name": "build", "head_sha": "c0ffee", "status": "completed"},
        **{"conclusion": "success", "run_url": "https://h/repos/o/r/actions/runs/3"},
        **{"started_at": "2026-01-02T00:00:00Z", "completed_at": "2026-01-02T00:00:09Z"},
    }
    return [
        {"total_count": 1, "workflow_runs": [run]},
        {"total_count": 2, "jobs": [job, {**job, "id": 8}]},
        {"workflow_job": {**job, "id": 9}, "repository": {"full_name": "o/r"}},
    ]


def make_jobs(directory: Path) -> None:
    (directory / "jobs").mkdir()
    (directory / "jobs" / "a.jsonl").write_bytes(_lines(_rows()))
    (directory / "jobs" / "b.jsonl.gz").write_bytes(gzip.compress(_lines(_rows()), mtime=0))
    (directory / "jobs" / "c.json").write_bytes(json.dumps(_answers()).encode())
    (directory / "jobs" / "d.ndjson").write_bytes(_lines(_answers()))


def make_parquet(directory: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    (directory / "jobs").mkdir()
    table = pyarrow.Table.from_pylist(_rows())
    pyarrow.parquet.write_table(table, directory / "jobs" / "e.parquet", row_group_size=4)


def read_jobs_in(directory: Path) -> Any:
    jobs, accounting = read_jobs(directory / "jobs")
    rows: dict[str, Any] = dict(accounting.rows())
    assert rows["accepted"] == len(jobs), "a job is not accounted for"
    assert rows["read"] == len(jobs) + sum(rows["left_out"].values()), "a row is lost"
    return [tuple(job) for job in jobs]


def make_tasks(directory: Path) -> None:
    rows = [
        {"prompt": f"{n}? ", "candidates": ["a", "b"], "support": [0, 1], "query": [0, 1.5]}
        | {"group": str(n), "family": "f", "split": ("training", "development")[n % 2]}
        for n in range(6)
    ]
    (directory / "tasks.jsonl").write_bytes(_lines(rows))


def read_tasks(directory: Path) -> Any:
    tasks = own_tasks(TaskSettings(tasks=str(directory / "tasks.jsonl")))
    return [asdict(task) for task in (*tasks.training, *tasks.development)]


def make_events(directory: Path) -> None:
    rows = [
        {
            "name": item.name,
            "asked": item.asked,
            "arrives": item.arrives,
            "prompt": item.question.prompt,
        }
        | {"candidates": list(item.question.candidates), "label": item.label}
        for item in live.questions(8)
    ]
    (directory / "events.jsonl").write_bytes(_lines(rows))
    rows = [{**row, "name": f"{row['name']}g"} for row in rows]
    (directory / "more.jsonl.gz").write_bytes(gzip.compress(_lines(rows), mtime=0))


def read_events_in(directory: Path) -> Any:
    return [read_events(directory / name) for name in ("events.jsonl", "more.jsonl.gz")]


_QUEUE = """\
o/r:
  train: {since: 2025-01-01, until: 2025-02-01, jobs: 40}
  audit: {since: 2025-02-01, jobs: 60}
"""


def make_settings(directory: Path) -> None:
    text = "".join(f"{k}: {json.dumps(v)}\n" for k, v in as_values(PRESETS["smoke"]).items())
    (directory / "study.yaml").write_text(text)
    (directory / "queue.yaml").write_text(_QUEUE)


def read_settings(directory: Path) -> Any:
    settings = build(ProgramSettings, read_yaml(directory / "study.yaml"), PRESETS["smoke"])
    return as_values(settings), load_queue(str(directory / "queue.yaml"))


# Ingest ------------------------------------------------------------------------------------------


def _fetch(directory: Path, told: Callable[[Any], None] = lambda _: None) -> bytes:
    import httpx

    def server(request: Any) -> Any:
        runs, jobs, _ = _answers()
        return httpx.Response(200, json=jobs if request.url.path.endswith("/jobs") else runs)

    fetch_jobs(
        "o/r",
        since="2026-01-01",
        until="2026-01-31",
        out=directory / "jobs.jsonl",
        transport=httpx.MockTransport(server),
        on_progress=told,
        sleep=lambda _: None,
        clock=lambda: 2e9,
    )
    return (directory / "jobs.jsonl").read_bytes()


def make_partial(directory: Path) -> None:
    """Stop an ingest when all is read, before its output is written."""

    def stop(progress: Any) -> None:
        if progress.stage == "jobs" and progress.done == progress.total:
            raise InterruptedError

    with suppress(InterruptedError):
        _fetch(directory, told=stop)


def make_fetched(directory: Path) -> None:
    _fetch(directory)


def read_fetched(directory: Path) -> Any:
    return _fetch(directory)


def make_answers(directory: Path) -> None:
    runs, jobs, _ = _answers()
    (directory / "runs").write_bytes(json.dumps(runs).encode())
    (directory / "jobs").write_bytes(json.dumps(jobs).encode())


def read_answers(directory: Path) -> Any:
    import httpx

    def server(request: Any) -> Any:
        name = "jobs" if request.url.path.endswith("/jobs") else "runs"
        path = directory / name
        return httpx.Response(200, content=path.read_bytes() if path.is_file() else b"")

    with tempfile.TemporaryDirectory() as out:
        report = fetch_jobs(
            "o/r",
            since="2026-01-01",
            until="2026-01-31",
            out=Path(out) / "jobs.jsonl",
            transport=httpx.MockTransport(server),
            sleep=lambda _: None,
            clock=lambda: 2e9,
        )
        return report.jobs
