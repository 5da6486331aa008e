"""Every reader of this package, with something good to read that can then be damaged."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import larc
from benchmarks.torture import live
from larc.ci import read_jobs
from larc.ci.driving import HedgeReplay, hedge_after
from larc.ci.fetching import fetch_jobs
from larc.ci.room import CIRoom, job_item
from larc.ci.split import load_queue
from larc.ci.synthetic import synthetic_jobs
from larc.files import write_whole
from larc.settings import as_values, build, read_yaml
from larc.state import SlowState, read_slow
from larc.stream.session import Session
from larc.studies.catalog import settings_of
from larc.studies.identity import provenance
from larc.studies.own_tasks import TaskSettings, own_tasks
from larc.studies.programs import PRESETS, ProgramSettings
from larc.studies.runs import Run, as_json, sha256
from larc.studies.stream_events import read_events
from larc.studies.verify import verify
from larc.training import Trainer, TrainingSettings
from tests.substrate.test_sources import write_gguf


@dataclass(frozen=True)
class Reader:
    """What is read, how, and whether damage that its own hashes show must never change it."""

    name: str
    make: Callable[[Path], None]
    read: Callable[[Path], Any]
    exact: bool
    weight: int = 10


@cache
def tiny() -> larc.Substrate:
    return larc.load_substrate("tiny")


@cache
def slow() -> SlowState:
    return SlowState.initial(tiny(), seed=1)


# Saved states ------------------------------------------------------------------------------------


def _make_slow(place: Path) -> None:
    write_whole(place / "slow", slow().to_bytes())


def _read_slow(place: Path) -> Any:
    return read_slow(place / "slow").about


def _learner() -> larc.Learner:
    return larc.Learner(tiny(), slow(), larc.SGD(1.0))


def _make_episode(place: Path) -> None:
    episode = _learner().begin(seed=3)
    episode.update(larc.Label("Next: ", ["up", "down"], 0))
    episode.save(place / "episode")


def _read_episode(place: Path) -> Any:
    episode = _learner().resume(place / "episode")
    stream = episode.stream.bit_generator.state
    return episode.step, stream, episode.factors.A.tolist(), episode.factors.B.tolist()


@cache
def _tasks() -> list[larc.Task]:
    return [larc.Task("Even? ", ["3", "4"], [1, 0], [1, 0])]


def _trainer() -> Trainer:
    return Trainer(tiny(), slow(), _tasks(), TrainingSettings(batch=1, inner_steps=1))


def _make_training(place: Path) -> None:
    trainer = _trainer()
    trainer.advance()
    trainer.save(place / "training", {"losses": [0.5]})


def _read_training(place: Path) -> Any:
    trainer = _trainer()
    before = trainer.slow.digest
    try:
        notes = trainer.restore(place / "training")
    except larc.LarcError:
        assert trainer.slow.digest == before, "half restored"
        raise
    return notes, trainer.updates, trainer.slow.digest


def _session() -> Session:
    return Session(_learner(), live.PATHS, CIRoom(), seed=1)


def _make_session(place: Path) -> None:
    session = _session()
    items = [job_item(job) for job in synthetic_jobs(6, seed=1)]
    session.ask(items)
    session.arrive(items[:4])
    session.save(place / "session", {"done": 2})


def _read_session(place: Path) -> Any:
    session = _session()
    try:
        notes = session.restore(place / "session")
    except larc.LarcError:
        assert not session.pending, "half restored"
        assert not session.room.size, "half restored"
        raise
    return notes, session.events, session.pending, session.room.state(), session.size


def _make_reference(place: Path) -> None:
    replay = hedge_after(synthetic_jobs(8, seed=1))
    replay.ask(synthetic_jobs(9, seed=2))
    write_whole(place / "replay.json", as_json(replay.state()))


def _read_reference(place: Path) -> Any:
    state = _loaded(place / "replay.json")
    return HedgeReplay.from_state(state).state() if isinstance(state, dict) else None


def _loaded(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


# Runs and packages -------------------------------------------------------------------------------


def _make_run(place: Path) -> None:
    run = Run.start(place / "run", "programs", as_values(PRESETS["smoke"]), data="d" * 64)
    files = {"slow.safetensors": slow().to_bytes(), "curve.json": as_json([0.5])}
    files["provenance.json"] = as_json(provenance(tiny()))
    run.finish_unit("train-adapted-1", files)
    run.record("training finished", {"slow": {"train-adapted-1": sha256(slow().to_bytes())}})
    run.finish_unit("predict-adapted-1", {"predictions.parquet": b"rows"})
    run.record("predictions written", {"predictions": {"predict-adapted-1": sha256(b"rows")}})
    run.record("queries opened", {})
    run.finish_unit("queries", {"queries.parquet": b"queries"})
    run.record("queries written", {"queries": sha256(b"queries")})
    run.write_file("tables/contrasts.md", b"| a | b |\n")
    run.write_manifest()


def _read_run(place: Path) -> Any:
    return verify(place / "run")


def _go_on(place: Path) -> Any:
    run = Run.start(place / "run", "programs", as_values(PRESETS["smoke"]), data="d" * 64)
    settings_of(run)
    run.check_foreign()
    run.is_listed("units/final-queries/done.json")
    run.record("final evaluation begun", {"tasks": 1})
    return run.made_with()


def _read_package(place: Path) -> Any:
    return SlowState.from_pretrained(place / "package", substrate=tiny()).digest


# Models ------------------------------------------------------------------------------------------


def _make_model(place: Path) -> None:
    tiny().model.save_pretrained(place / "model")
    tiny().tokenizer.save_pretrained(place / "model")


def _read_model(place: Path) -> Any:
    return larc.load_substrate(place / "model").identity


def _make_adapter(place: Path) -> None:
    from larc.studies.adapter import train_adapter
    from larc.studies.options import AdapterSettings

    train_adapter(AdapterSettings("tiny", str(place / "adapter"), updates=1, batch=2))


def _read_adapter(place: Path) -> Any:
    return larc.load_substrate("tiny", adapter=place / "adapter").identity


def _make_gguf(place: Path) -> None:
    write_gguf(place / "model.gguf")


def _read_gguf(place: Path) -> Any:
    return larc.load_substrate(place / "model.gguf").identity


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


def _make_jobs(place: Path) -> None:
    (place / "jobs").mkdir()
    (place / "jobs" / "a.jsonl").write_bytes(_lines(_rows()))
    (place / "jobs" / "b.jsonl.gz").write_bytes(gzip.compress(_lines(_rows()), mtime=0))
    (place / "jobs" / "c.json").write_bytes(json.dumps(_answers()).encode())
    (place / "jobs" / "d.ndjson").write_bytes(_lines(_answers()))


def _make_parquet(place: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    (place / "jobs").mkdir()
    table = pyarrow.Table.from_pylist(_rows())
    pyarrow.parquet.write_table(table, place / "jobs" / "e.parquet", row_group_size=4)


def _read_jobs(place: Path) -> Any:
    jobs, accounting = read_jobs(place / "jobs")
    rows = accounting.rows()
    assert rows["accepted"] == len(jobs), "a job is not accounted for"
    assert rows["read"] == len(jobs) + sum(rows["left_out"].values()), "a row is lost"
    return [tuple(job) for job in jobs]


def _make_tasks(place: Path) -> None:
    rows = [
        {"prompt": f"{n}? ", "candidates": ["a", "b"], "support": [0, 1], "query": [0, 1.5]}
        | {"group": str(n), "family": "f", "split": ("training", "development")[n % 2]}
        for n in range(6)
    ]
    (place / "tasks.jsonl").write_bytes(_lines(rows))


def _read_tasks(place: Path) -> Any:
    found = own_tasks(TaskSettings(tasks=str(place / "tasks.jsonl")))
    return [asdict(task) for task in (*found.training, *found.development)]


def _make_events(place: Path) -> None:
    rows = [
        {"name": item.name, "asked": item.asked, "arrives": item.arrives, "prompt": item.prompt}
        | {"candidates": list(item.candidates), "label": item.label}
        for item in live.questions(8)
    ]
    (place / "events.jsonl").write_bytes(_lines(rows))
    rows = [{**row, "name": f"{row['name']}g"} for row in rows]
    (place / "more.jsonl.gz").write_bytes(gzip.compress(_lines(rows), mtime=0))


def _read_events(place: Path) -> Any:
    return [read_events(place / name) for name in ("events.jsonl", "more.jsonl.gz")]


_QUEUE = """\
o/r:
  train: {since: 2025-01-01, until: 2025-02-01, jobs: 40}
  audit: {since: 2025-02-01, jobs: 60}
"""


def _make_settings(place: Path) -> None:
    text = "".join(f"{k}: {json.dumps(v)}\n" for k, v in as_values(PRESETS["smoke"]).items())
    (place / "study.yaml").write_text(text)
    (place / "queue.yaml").write_text(_QUEUE)


def _read_settings(place: Path) -> Any:
    settings = build(ProgramSettings, read_yaml(place / "study.yaml"), PRESETS["smoke"])
    return as_values(settings), load_queue(str(place / "queue.yaml"))


# Ingest ------------------------------------------------------------------------------------------


def _fetch(place: Path, told: Callable[[Any], None] = lambda _: None) -> bytes:
    import httpx

    def server(request: Any) -> Any:
        runs, jobs, _ = _answers()
        return httpx.Response(200, json=jobs if request.url.path.endswith("/jobs") else runs)

    fetch_jobs(
        "o/r",
        since="2026-01-01",
        until="2026-01-31",
        out=place / "jobs.jsonl",
        transport=httpx.MockTransport(server),
        on_progress=told,
        sleep=lambda _: None,
        clock=lambda: 2e9,
    )
    return (place / "jobs.jsonl").read_bytes()


def _make_partial(place: Path) -> None:
    """Stop an ingest when all is read, before its output is written."""

    def stop(progress: Any) -> None:
        if progress.stage == "jobs" and progress.done == progress.total:
            raise InterruptedError

    with suppress(InterruptedError):
        _fetch(place, told=stop)


def _make_fetched(place: Path) -> None:
    _fetch(place)


def _read_fetched(place: Path) -> Any:
    return _fetch(place)


def _make_answers(place: Path) -> None:
    runs, jobs, _ = _answers()
    (place / "runs").write_bytes(json.dumps(runs).encode())
    (place / "jobs").write_bytes(json.dumps(jobs).encode())


def _read_answers(place: Path) -> Any:
    import httpx

    def server(request: Any) -> Any:
        name = "jobs" if request.url.path.endswith("/jobs") else "runs"
        path = place / name
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


READERS = (
    Reader("slow state", _make_slow, _read_slow, exact=True, weight=20),
    Reader("episode", _make_episode, _read_episode, exact=True),
    Reader("training", _make_training, _read_training, exact=True),
    Reader("session", _make_session, _read_session, exact=True),
    Reader("HEDGE4", _make_reference, _read_reference, exact=False),
    Reader("run", _make_run, _read_run, exact=True, weight=20),
    Reader("run gone on with", _make_run, _go_on, exact=False),
    Reader("package", lambda p: slow().save_pretrained(p / "package"), _read_package, exact=True),
    Reader("jobs", _make_jobs, _read_jobs, exact=False, weight=20),
    Reader("Parquet jobs", _make_parquet, _read_jobs, exact=False, weight=20),
    Reader("tasks", _make_tasks, _read_tasks, exact=False),
    Reader("stream events", _make_events, _read_events, exact=False),
    Reader("settings", _make_settings, _read_settings, exact=False),
    Reader("stopped ingest", _make_partial, _read_fetched, exact=True),
    Reader("finished ingest", _make_fetched, _read_fetched, exact=True),
    Reader("answers of GitHub", _make_answers, _read_answers, exact=False),
    Reader("model", _make_model, _read_model, exact=False, weight=3),
    Reader("adapter", _make_adapter, _read_adapter, exact=True, weight=3),
    Reader("GGUF", _make_gguf, _read_gguf, exact=False, weight=1),
)
