"""The continuous-integration study on made-up jobs and the tiny model."""

import json
from dataclasses import replace

import pytest

from larc.cli import main
from larc.errors import LarcError
from larc.evaluation import half_brier
from larc.io.parquet import from_parquet
from larc.runs import units
from larc.runs.run import Run
from larc.runs.settings import Execution
from larc.stream.session import Session
from larc.studies.ci.queue import audit_queue
from larc.studies.ci.settings import PRESETS, CISettings
from larc.studies.registry import STUDIES
from larc.studies.running import run_study

SMALL = ["--seeds", "2026092811", "--train", "6", "--audit", "8"]


def small(out, *options):
    return main(["study", "ci", "--preset", "smoke", "--out", str(out), *SMALL, *options])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "ci"
    assert small(out) == 0
    return out


def predictions(out):
    return {
        path.parent.name: path.read_bytes()
        for path in sorted(out.glob("units/audit-*/predictions.parquet"))
    }


def rows(out):
    return [row for content in predictions(out).values() for row in from_parquet(content, "p")]


def test_every_path_answers_every_job_and_the_report_calls_it_synthetic(run):
    predicted = rows(run)
    jobs = {row["name"] for row in predicted}
    paths = {row["path"] for row in predicted}
    assert paths >= {"P0M0", "P1M0", "P0M1", "P1M1", "PERM_M1", "ORIGINAL", "CALIBRATED", "HEDGE4"}
    assert len(predicted) == len(jobs) * len(paths)
    assert all(sum(row["policy"]) == pytest.approx(1, abs=1e-5) for row in predicted)
    report = (run / "report.md").read_text()
    assert "(synthetic jobs)" in report
    assert "On a synthetic queue" in report
    for name in ("replay", "effects", "strata", "weightings", "calibration", "updates"):
        assert (run / "tables" / f"{name}.csv").stat().st_size > 50
    assert main(["verify", str(run)]) == 0


def test_it_starts_from_the_static_states_of_a_program_study(run, tmp_path, capsys):
    start, out = tmp_path / "programs", tmp_path / "ci"
    groups = ("--training-groups", "1", "--development-groups", "1", "--objectives", "static")
    programs = ["study", "programs", "--preset", "smoke", *SMALL[:2], *groups, "--updates", "1"]
    assert main([*programs, "--out", str(start)]) == 0
    # A state at another place than the settings say would be on record as what it is not.
    for wrong, says in (
        (["--boundary", "1"], "give --boundary 0 --rank 4"),
        (["--rank", "2"], "give --boundary 0 --rank 4"),
        (["--seeds", "7"], "no state of the static objective with seed 7"),
    ):
        assert small(out, "--start", str(start), *wrong) == 1
        assert says in capsys.readouterr().err
        assert not out.exists()
    assert small(out, "--start", str(start)) == 0
    assert predictions(out) != predictions(run)


def test_the_scores_are_those_of_the_saved_predictions(run):
    keep_rows = [row for row in rows(run) if row["path"] == "P1M1"]
    losses = half_brier([row["policy"] for row in keep_rows], [row["label"] for row in keep_rows])
    by_commit = {}
    for row, loss in zip(keep_rows, losses, strict=True):
        by_commit.setdefault(row["repository"], {}).setdefault(row["commit"], []).append(loss)
    repositories = [
        sum(sum(of_commit) / len(of_commit) for of_commit in commits.values()) / len(commits)
        for commits in by_commit.values()
    ]
    expected = sum(repositories) / len(repositories)
    line = next(
        line
        for line in (run / "tables" / "replay.csv").read_text().splitlines()
        if line.startswith("P1M1,")
    )
    assert float(line.split(",")[1]) == pytest.approx(expected, abs=1e-6)


def test_training_and_audit_share_no_commit():
    split = audit_queue(PRESETS["smoke"])
    commits = [
        {(job.repository, job.head_sha) for job in side} for side in (split.training, split.audit)
    ]
    assert not commits[0] & commits[1]


@pytest.mark.parametrize("at", [2, 5])
def test_a_stopped_replay_goes_on_to_the_same_predictions(run, tmp_path, monkeypatch, at):
    monkeypatch.setattr(units, "CHECKPOINT_EVERY", 1)
    arrive, calls = Session.learn, []

    def interrupted(session, items):
        if len(session.strategies) > 2:  # the audit, not the history
            calls.append(1)
            if len(calls) == at:
                raise KeyboardInterrupt
        return arrive(session, items)

    monkeypatch.setattr(Session, "learn", interrupted)
    out = tmp_path / "stopped"
    assert small(out) == 130
    assert small(out) == 0
    assert predictions(out) == predictions(run)


def test_processes_side_by_side_give_the_same_predictions(run, tmp_path):
    assert small(tmp_path / "parallel", "--workers", "2") == 0
    assert predictions(tmp_path / "parallel") == predictions(run)


def test_a_full_session_stops_with_everything_saved_and_a_larger_limit_goes_on(
    run, tmp_path, capsys
):
    out = tmp_path / "full"
    assert small(out, "--pending-limit", "2500") == 1
    assert "pending limit of 2500" in capsys.readouterr().err
    assert small(out) == 0
    assert predictions(out) == predictions(run)


def test_jobs_are_needed_and_windows_must_hold_some(tmp_path, capsys):
    assert main(["study", "ci", "--preset", "quick", "--out", str(tmp_path / "a")]) == 1
    assert "--jobs" in capsys.readouterr().err
    assert small(tmp_path / "b", "--train", "0") == 1
    assert "both need some" in capsys.readouterr().err
    assert small(tmp_path / "c", "--train", "soon") == 1
    assert "is no window" in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


def test_the_standard_queue_holds_what_it_declares(shared_data):
    files = [str(path) for path in sorted((shared_data / "ci").glob("*.jsonl.gz"))]
    split = audit_queue(CISettings(jobs=tuple(files)))
    assert len(split.training) >= 400
    assert len(split.audit) >= 600
    for side in (split.training, split.audit):
        assert {job.repository for job in side} == {"bitcoin/bitcoin", "apache/ozone"}
        for repository in ("bitcoin/bitcoin", "apache/ozone"):
            assert {job.label for job in side if job.repository == repository} == {0, 1, 2, 3}


def test_the_config_keeps_what_decides_the_result(run):
    saved = json.loads((run / "config.json").read_text())["settings"]
    assert "pending_limit" not in saved
    assert saved["train"] == "6"
    assert Run(run).kind == "ci"


def test_a_job_too_long_for_the_audit_is_refused_before_any_training(tmp_path):
    settings = replace(PRESETS["smoke"], seeds=(7,), train="6", audit="8")
    split = audit_queue(settings)
    *others, last = split.audit
    changed = replace(split, audit=(*others, last._replace(job_name="x" * 3000)))
    study = replace(STUDIES["ci"], prepare=lambda _: changed)
    with pytest.raises(LarcError, match=rf"job '{last.job_id:020d}' of .* over the limit of 1024"):
        run_study(study, settings, tmp_path / "run", Execution())
    assert not (tmp_path / "run").exists()
