"""Every reader of this package, with something good to read that can then be damaged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import larc
from benchmarks.torture import live, records
from larc.domains.ci.hedge_replay import HedgeReplay, hedge_after
from larc.domains.ci.prompter import JobPrompter, recorded_job
from larc.domains.ci.synthetic import synthetic_jobs
from larc.io.files import atomic_write
from larc.io.hashes import sha256
from larc.io.json_files import as_json
from larc.runs.archive import pack
from larc.runs.identity import provenance
from larc.runs.run import Run
from larc.settings import as_values
from larc.state import SlowState, read_slow
from larc.stream.controller import Controller
from larc.stream.question import labels_of, questions_of
from larc.stream.session import Session
from larc.studies.programs.settings import PRESETS
from larc.studies.registry import settings_of
from larc.studies.running import verify_run
from larc.training.tasks import Trainer, TrainingSettings
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


def _make_slow(directory: Path) -> None:
    atomic_write(directory / "slow", slow().to_bytes())


def _read_slow(directory: Path) -> Any:
    return read_slow(directory / "slow").about


def _learner() -> larc.Learner:
    return larc.Learner(tiny(), slow(), larc.SGD(1.0))


def _make_episode(directory: Path) -> None:
    episode = _learner().begin(seed=3)
    episode.update(larc.Label("Next: ", ["up", "down"], 0))
    episode.save(directory / "episode")


def _read_episode(directory: Path) -> Any:
    episode = _learner().resume(directory / "episode")
    stream = episode.stream.bit_generator.state
    return episode.step, stream, episode.factors.A.tolist(), episode.factors.B.tolist()


@cache
def _tasks() -> list[larc.Task]:
    return [larc.Task("Even? ", ["3", "4"], [1, 0], [1, 0])]


def _trainer() -> Trainer:
    return Trainer(tiny(), slow(), _tasks(), TrainingSettings(batch=1, inner_steps=1))


def _make_training(directory: Path) -> None:
    trainer = _trainer()
    trainer.advance()
    trainer.save(directory / "training", {"losses": [0.5]})


def _read_training(directory: Path) -> Any:
    trainer = _trainer()
    before = trainer.slow.digest
    try:
        notes = trainer.restore(directory / "training")
    except larc.LarcError:
        assert trainer.slow.digest == before, "half restored"
        raise
    return notes, trainer.updates, trainer.slow.digest


def _session() -> Session:
    return Session(_learner(), live.PATHS, JobPrompter(), seed=1)


def _make_session(directory: Path) -> None:
    session = _session()
    items = [recorded_job(job) for job in synthetic_jobs(6, seed=1)]
    session.ask(questions_of(items))
    session.learn(labels_of(items[:4]))
    session.save(directory / "session", {"done": 2})


def _read_session(directory: Path) -> Any:
    session = _session()
    try:
        notes = session.restore(directory / "session")
    except larc.LarcError:
        assert not session.pending, "half restored"
        assert not session.prompter.size, "half restored"
        raise
    return notes, session.events, session.pending, session.prompter.state(), session.size


def _make_controller(directory: Path) -> None:
    controller = Controller(_session())
    items = [recorded_job(job) for job in synthetic_jobs(6, seed=1)]
    controller.ask(questions_of(items))
    controller.learn(labels_of(items[:4]))
    controller.save(directory / "session", {"done": 2})


def _read_controller(directory: Path) -> Any:
    controller = Controller(_session())
    before = controller.forecaster.state()
    try:
        notes = controller.restore(directory / "session")
    except larc.LarcError:
        assert controller.forecaster.state() == before, "half restored"
        assert not controller.session.pending, "half restored"
        raise
    return notes, controller.forecaster.state(), controller.session.size


def _make_reference(directory: Path) -> None:
    replay = hedge_after(synthetic_jobs(8, seed=1))
    replay.ask(synthetic_jobs(9, seed=2))
    atomic_write(directory / "replay.json", as_json(replay.state()))


def _read_reference(directory: Path) -> Any:
    state = _loaded(directory / "replay.json")
    return HedgeReplay.from_state(state).state() if isinstance(state, dict) else None


def _loaded(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


# Runs and packages -------------------------------------------------------------------------------


def _make_run(directory: Path) -> None:
    run = Run.start(directory / "run", "programs", as_values(PRESETS["smoke"]), data="d" * 64)
    files = {"slow.safetensors": slow().to_bytes(), "curve.json": as_json([0.5])}
    files["provenance.json"] = as_json(provenance(tiny()))
    run.finish_unit("train-adapted-1", files)
    run.record("training finished", {"slow": {"train-adapted-1": sha256(slow().to_bytes())}})
    run.finish_unit("predict-adapted-1", {"predictions.parquet": b"rows"})
    run.record("predictions written", {"predictions": {"predict-adapted-1": sha256(b"rows")}})
    run.record("queries opened", {})
    run.finish_unit("queries", {"queries.parquet": b"queries"})
    run.record("queries written", {"queries": sha256(b"queries")})
    run.close()


def _read_run(directory: Path) -> Any:
    return verify_run(directory / "run")


def _make_archive(directory: Path) -> None:
    _make_run(directory)
    pack(Run(directory / "run"), directory / "run.larc")
    shutil.rmtree(directory / "run")


def _read_archive(directory: Path) -> Any:
    return verify_run(directory / "run.larc")


def _go_on(directory: Path) -> Any:
    run = Run.start(directory / "run", "programs", as_values(PRESETS["smoke"]), data="d" * 64)
    settings_of(run)
    run.check_foreign()
    run.manifest()
    run.record("final evaluation begun", {"tasks": 1})
    return run.made_with()


def _read_package(directory: Path) -> Any:
    return SlowState.from_pretrained(directory / "package", substrate=tiny()).digest


# Models ------------------------------------------------------------------------------------------


def _make_model(directory: Path) -> None:
    tiny().model.save_pretrained(directory / "model")
    tiny().tokenizer.save_pretrained(directory / "model")


def _read_model(directory: Path) -> Any:
    return larc.load_substrate(directory / "model").identity


def _make_adapter(directory: Path) -> None:
    from larc.studies.programs.adapter import train_adapter
    from larc.studies.programs.settings import AdapterSettings

    train_adapter(AdapterSettings("tiny", str(directory / "adapter"), updates=1, batch=2))


def _read_adapter(directory: Path) -> Any:
    return larc.load_substrate("tiny", adapter=directory / "adapter").identity


def _make_gguf(directory: Path) -> None:
    write_gguf(directory / "model.gguf")


def _read_gguf(directory: Path) -> Any:
    return larc.load_substrate(directory / "model.gguf").identity


READERS = (
    Reader("slow state", _make_slow, _read_slow, exact=True, weight=20),
    Reader("episode", _make_episode, _read_episode, exact=True),
    Reader("training", _make_training, _read_training, exact=True),
    Reader("session", _make_session, _read_session, exact=True),
    Reader("controller", _make_controller, _read_controller, exact=True),
    Reader("HEDGE4", _make_reference, _read_reference, exact=False),
    Reader("run", _make_run, _read_run, exact=True, weight=20),
    Reader("archive", _make_archive, _read_archive, exact=True, weight=20),
    Reader("run gone on with", _make_run, _go_on, exact=False),
    Reader("package", lambda p: slow().save_pretrained(p / "package"), _read_package, exact=True),
    Reader("jobs", records.make_jobs, records.read_jobs_in, exact=False, weight=20),
    Reader("Parquet jobs", records.make_parquet, records.read_jobs_in, exact=False, weight=20),
    Reader("tasks", records.make_tasks, records.read_tasks, exact=False),
    Reader("stream events", records.make_events, records.read_events_in, exact=False),
    Reader("settings", records.make_settings, records.read_settings, exact=False),
    Reader("stopped ingest", records.make_partial, records.read_fetched, exact=True),
    Reader("finished ingest", records.make_fetched, records.read_fetched, exact=True),
    Reader("answers of GitHub", records.make_answers, records.read_answers, exact=False),
    Reader("model", _make_model, _read_model, exact=False, weight=3),
    Reader("adapter", _make_adapter, _read_adapter, exact=True, weight=3),
    Reader("GGUF", _make_gguf, _read_gguf, exact=False, weight=1),
)
