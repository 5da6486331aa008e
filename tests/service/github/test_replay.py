"""A recorded history played into a server: the study's numbers come out of the live path."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from larc.cli import main
from larc.domains.ci.experts import EXPERTS, half_brier
from larc.domains.ci.synthetic import synthetic_jobs
from larc.service.github.replay import backfill, replay_webhooks
from larc.service.server import ServerSettings, running
from larc.service.templates import Models
from larc.state import read_slow
from larc.studies.ci.queue import audit_queue
from larc.studies.ci.settings import PRESETS
from tests.service.conftest import Server, until
from tests.service.github.deliveries import SECRET, Follower, settings

NAME, STREAM = "synthetic/one", "github.synthetic.one"


def history(count, seed=3):
    """Return made-up jobs of one repository; several of them start and end in one second."""
    jobs = [job for job in synthetic_jobs(2 * count, seed) if job.repository == NAME][:count]
    return [job._replace(completed_at=-(-job.completed_at // 60) * 60) for job in jobs]


def losses(follower):
    """Return the mean half-Brier loss of every predictor on the jobs that were predicted."""
    status = follower.server.status(STREAM)
    return {name: one["sum"] / one["count"] for name, one in status["losses"].items()}


def ended(follower, count):
    return until(lambda: (v := follower.view(NAME))["counts"]["ended"] == count and v)


def test_the_studys_numbers_come_out_of_the_live_path(tmp_path, tiny):
    jobs = history(60)
    file = tmp_path / "jobs.jsonl"
    names = ("success", "failure", "cancelled", "skipped")
    rows = [{**job._asdict(), "conclusion": names[job.label]} for job in jobs]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "run"
    study = ["study", "ci", "--preset", "smoke", "--synthetic", "0", "--jobs", str(file)]
    study += ["--train", "30", "--audit", "30", "--seeds", "7", "--out", str(out)]
    assert main(study) == 0
    (fitted,) = out.glob("units/*7/slow.safetensors")
    (predicted,) = out.glob("units/audit-*/predictions.parquet")
    offline: dict[str, list[float]] = {}
    asked = set()
    for row in pq.read_table(predicted).to_pylist():
        offline.setdefault(row["path"], []).append(half_brier(row["policy"], row["label"]))
        asked.add(row["name"])
    settings_of = replace(PRESETS["smoke"], synthetic=0, jobs=(str(file),), train="30", audit="30")
    split = audit_queue(settings_of)
    training, audit = split.training, split.audit
    assert asked == {f"{job.job_id:020d}" for job in audit}
    models = Models(tiny, read_slow(fitted), "sgd:1.0")
    chosen = ServerSettings(
        tmp_path / "data", port=0, token_file=tmp_path / "token", github=settings(settle_s=600.0)
    )
    with running(chosen, models) as address:
        server = Server(address, (tmp_path / "token").read_text().strip())
        assert backfill(address, server.token, training) == {NAME: len(training)}
        played = replay_webhooks(address, SECRET, audit)
        assert played.jobs == len(audit)
        server.http.close()
    # Labels of the last second wait for a later event, or for time to pass.
    with running(replace(chosen, github=settings()), models) as address:
        server = Server(address, (tmp_path / "token").read_text().strip())
        ended(Follower(server), len(training) + len(audit))
        print([e["reason"] for e in server.events(STREAM) if e["status"]=="refused"][:3], [(e["kind"],e["status"]) for e in server.events(STREAM)][-20:])
        until(lambda: server.status(STREAM)["labelled"] == len(audit))
        live = losses(Follower(server))
        server.http.close()
    compared = {"P0M0", "P1M0", "P0M1", "P1M1", "HEDGE4", *EXPERTS}
    for name in sorted(compared):
        assert live[name] == pytest.approx(np.mean(offline[name]), abs=1e-4), name
    # And something was learned, so that this says something.
    assert abs(live["P1M1"] - live["P0M1"]) > 1e-3
