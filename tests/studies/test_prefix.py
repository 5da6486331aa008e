"""The prefix intervention on CI runs of a few made-up jobs: the tiny model, and SmolLM2."""

import json
import math
import shutil
from itertools import pairwise

import numpy as np
import pytest

import larc
from larc.cli import main
from larc.evaluation import half_brier
from larc.io.hashes import sha256
from larc.io.json_files import as_json
from larc.io.parquet import from_parquet, to_parquet
from larc.runs import units
from larc.runs.run import Run
from larc.stream import Question, Recorded, Strategy
from larc.stream.session import Session
from larc.studies.prefix import results as prefix_results
from larc.studies.prefix.units import measured

SEED = 2026092811
# Repository, commit, seconds of start and completion, conclusion: two to train on, then the audit.
JOBS = (
    *(("o/a", "a0", 0, 5, "success"), ("o/a", "a0", 1, 9, "failure")),
    *(("o/a", "a1", 10, 15, "skipped"), ("o/a", "a1", 10, 20, "success")),
    *(("o/a", "a1", 12, 22, "cancelled"), ("o/a", "a2", 21, 58, "success")),
    *(("o/a", "a2", 25, 59, "failure"), ("o/a", "a2", 40, 59, "success")),
    *(("o/b", "b0", 0, 5, "success"), ("o/b", "b0", 1, 9, "success")),
    *(("o/b", "b1", 10, 20, "skipped"), ("o/b", "b1", 11, 20, "failure")),
    ("o/b", "b1", 30, 50, "success"),
)
# Five jobs of o/a and all three of o/b, with three and one batches of feedback among them.
PREFIX, QUESTIONS, BATCHES = "5", 8, 4
RESULTS = ("config.json", "evidence.jsonl", "units")
ACTIVE = ("CARRY_1", "CARRY_TENTH", "LATEST_1", "LATEST_TENTH")


def predict(directory, *options):
    """Make a finished CI run of the jobs above."""
    rows = [
        {
            "repository": repository,
            "job_name": f"job {number % 3}",
            "head_sha": commit,
            "started_at": f"2026-01-02T00:00:{start:02}Z",
            "completed_at": f"2026-01-02T00:00:{end:02}Z",
            "conclusion": conclusion,
            "job_id": number + 1,
        }
        for number, (repository, commit, start, end, conclusion) in enumerate(JOBS)
    ]
    jobs = directory / "jobs.jsonl"
    jobs.write_text("".join(json.dumps(row) + "\n" for row in rows))
    windows = ["--synthetic", "0", "--jobs", str(jobs), "--train", "2", "--audit", "6"]
    given = ["--preset", "smoke", "--seeds", str(SEED), *windows, *options]
    assert main(["study", "ci", *given, "--out", str(directory / "ci")]) == 0
    return directory / "ci"


def intervene(source, out, *options, prefix=PREFIX):
    given = ["--run", str(source), "--prefix", prefix, "--out", str(out)]
    return main(["study", "prefix", *given, *options])


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return predict(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def run(source, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "prefix"
    assert intervene(source, out) == 0
    return out


def rows(out, units, what="predictions"):
    files = sorted(out.glob(f"units/{units}/{what}.parquet"))
    return [row for path in files for row in from_parquet(path.read_bytes(), str(path))]


def table(out, name):
    lines = (out / "tables" / f"{name}.csv").read_text().splitlines()
    return {line.split(",")[0]: line.split(",")[1:] for line in lines[1:]}


def test_what_is_repeated_is_what_was_saved_bit_for_bit(source, run):
    saved = {(row["path"], row["name"]): row["policy"] for row in rows(source, "audit-*")}
    repeated = rows(run, "repeat-*")
    assert {row["path"] for row in repeated} == {"CARRY_1", "RESET"}
    assert len(repeated) == 2 * QUESTIONS
    for row in repeated:
        original = {"CARRY_1": "P1M1", "RESET": "P0M1"}[row["path"]]
        assert row["policy"] == saved[original, row["name"]]
    # The prefix is long enough to tell a kept state from one that was reset.
    assert any(saved["P1M1", row["name"]] != saved["P0M1", row["name"]] for row in repeated)


def test_the_report_scores_the_prefix_with_the_whole_queues_weights(source, run):
    whole = [row for row in rows(source, "audit-*") if row["path"] == "HEDGE4"]
    early = {row["name"] for row in rows(run, "paths-*")}
    expected = {}
    for path in (*ACTIVE, "RESET", "HEDGE4"):
        predicted = whole if path == "HEDGE4" else rows(run, "repeat-*") + rows(run, "paths-*")
        predicted = {r["name"]: r for r in predicted if r["path"] == path and r["name"] in early}
        by_repository = []
        for repository in sorted({row["repository"] for row in whole}):
            jobs = [row for row in whole if row["repository"] == repository]
            total = weight = 0.0
            for row in jobs:
                if row["name"] in early:
                    # A commit's weight is shared by all of its jobs, also by those left out.
                    share = 1 / sum(other["commit"] == row["commit"] for other in jobs)
                    loss = half_brier([predicted[row["name"]]["policy"]], [row["label"]])[0]
                    total, weight = total + share * loss, weight + share
            by_repository.append(total / weight)
        expected[path] = np.mean(by_repository)
    shown = table(run, "prefix")
    assert list(shown) == [*ACTIVE, "RESET", "HEDGE4"]
    for path, value in expected.items():
        assert float(shown[path][0]) == pytest.approx(value, abs=1e-6)
    effects = table(run, "effects")
    gain = expected["CARRY_1"] - expected["CARRY_TENTH"]
    assert float(effects["Smaller carried update"][0]) == pytest.approx(gain, abs=1e-6)


def test_the_report_is_whole_and_names_the_run_by_its_results(source, run):
    report = (run / "report.md").read_text()
    config = json.loads((run / "config.json").read_text())["settings"]
    assert f"larc study prefix --prefix {PREFIX} --results {config['results']} --run" in report
    for name in ("prefix", "effects", "first", "updates", "crossings", "population", "cost"):
        assert (run / "tables" / f"{name}.csv").stat().st_size > 50
    assert 'id="figure-online"' in (run / "report.html").read_text()
    assert (run / "report.html").stat().st_size > 1000
    assert main(["verify", str(run)]) == 0
    recorded = json.loads((source / "manifest.json").read_text())["files"]
    kept = {n: d for n, d in recorded.items() if n.split("/")[0] in RESULTS}
    assert config["results"] == sha256(as_json(kept))


def test_a_report_of_the_run_that_is_written_again_leaves_its_results_what_they_were(
    source, run, tmp_path, capsys
):
    copy = shutil.copytree(source, tmp_path / "ci")
    (copy / "report.md").write_text("another report")
    Run(copy).close()
    out = shutil.copytree(run, tmp_path / "prefix")
    results = Run(run).settings["results"]
    assert intervene(copy, out, "--results", results) == 1
    assert "with run = " in capsys.readouterr().err  # only its place is another
    assert intervene(copy, tmp_path / "new", "--results", "0" * 64) == 1
    assert f"has the results {results}" in capsys.readouterr().err


def test_updates_are_measured_on_their_own_batch(run):
    updates = rows(run, "repeat-*", "updates") + rows(run, "paths-*", "updates")
    by_path = {path: [row for row in updates if row["path"] == path] for path in ACTIVE}
    assert {len(path_updates) for path_updates in by_path.values()} == {BATCHES}
    for path_updates in by_path.values():
        firsts = [row for row in path_updates if row["batch"] == 1]
        assert {row["repository"] for row in firsts} == {"o/a", "o/b"}
        batches = [row["batch"] for row in path_updates if row["repository"] == "o/a"]
        assert all(b == a + 1 for a, b in pairwise(batches))
    for whole, tenth in zip(by_path["LATEST_1"], by_path["LATEST_TENTH"], strict=True):
        # Both start from the slow state; what they are computed beside differs by rounding.
        assert tenth["before"] == pytest.approx(whole["before"], abs=1e-6)
        assert tenth["increment"] == pytest.approx(0.1 * whole["increment"], rel=1e-4)
        # A tenth of a descending step descends, on a loss this smooth.
        assert tenth["after"] < tenth["before"]
    raised = [row["after"] - row["before"] > prefix_results.ROUNDING for row in by_path["CARRY_1"]]
    assert int(table(run, "updates")["CARRY_1"][1]) == sum(raised)


def test_descending_updates_of_the_run_are_measured_and_none_raises_its_batch(tmp_path):
    source = predict(tmp_path, "--further", "yes")
    assert intervene(source, tmp_path / "prefix") == 0
    updates = list(rows(tmp_path / "prefix", "repeat-*", "updates"))
    descent = [row for row in updates if row["path"] == "DESCENT"]
    assert len(descent) == len([row for row in updates if row["path"] == "CARRY_1"]) == BATCHES
    assert all(row["after"] <= row["before"] + prefix_results.ROUNDING for row in descent)
    assert any(row["after"] < row["before"] for row in descent)
    assert table(tmp_path / "prefix", "updates")["DESCENT"][:2] == [str(BATCHES), "0"]


def test_a_measurement_is_the_loss_of_the_new_factors(tiny):
    learner = larc.Learner(tiny, larc.SlowState.initial(tiny, seed=1), larc.SGD(0.5))
    paths = [Strategy("keep"), Strategy("last", retention="latest", scale=0.1), Strategy("other")]
    session = Session(learner, paths, seed=1)
    items = [
        Recorded(Question(name, ("up", "down"), f"Is it {name}? "), asked=0, arrives=1, label=label)
        for label, name in enumerate("ab")
    ]
    for batch in (items[:1], items):
        session.ask([item.question for item in items if item.name not in session.pending])
        start = {n: session.episodes[n].factors for n in ("keep", "last")}
        start["last"] = learner.slow.factors
        measurements = measured(session, batch, {"keep": "KEEP", "last": "LAST"})
        assert list(measurements) == ["KEEP", "LAST"]
        for name, (before, after, increment) in measurements.items():
            episode = learner.begin()
            for factors, loss in (
                (start[name.lower()], before),
                (session.episodes[name.lower()].factors, after),
            ):
                episode.factors = factors
                asked = [(i.question.prompt, i.question.candidates) for i in batch]
                reads = [episode.read(*question) for question in asked]
                probabilities = [read[i.label].item() for read, i in zip(reads, batch, strict=True)]
                # Two ways to one number: a float32 probability, and its logarithm directly.
                assert loss == pytest.approx(-np.mean(np.log(probabilities)), abs=1e-5)
            old, new = start[name.lower()], session.episodes[name.lower()].factors
            squares = [((a - b) ** 2).sum().item() for a, b in ((old.A, new.A), (old.B, new.B))]
            assert increment == pytest.approx(math.sqrt(sum(squares)), rel=1e-5)


def test_a_stopped_intervention_goes_on_to_the_same_bytes(source, run, tmp_path, monkeypatch):
    monkeypatch.setattr(units, "CHECKPOINT_EVERY", 1)
    arrive, calls = Session.learn, []

    def interrupted(session, items):
        calls.append(1)
        if len(calls) in (2, 7):  # once while the run is repeated, once after that
            raise KeyboardInterrupt
        return arrive(session, items)

    monkeypatch.setattr(Session, "learn", interrupted)
    out = tmp_path / "stopped"
    assert [intervene(source, out) for _ in range(3)] == [130, 130, 0]
    assert len(calls) == 2 * BATCHES + 2  # nothing that was done is done again
    for name in ("predictions", "updates", "ledger"):
        for path in run.glob(f"units/*/{name}.*"):
            assert (out / path.relative_to(run)).read_bytes() == path.read_bytes()


def rewritten(source, target, change):
    """Copy a run with other predictions and every hash redone: only the contents can tell."""
    run = shutil.copytree(source, target)
    unit = sorted(run.glob("units/audit-*"))[0]
    changed = to_parquet(change(from_parquet((unit / "predictions.parquet").read_bytes(), "p")))
    (unit / "predictions.parquet").write_bytes(changed)
    done = json.loads((unit / "done.json").read_text())
    (unit / "done.json").write_bytes(as_json(done | {"predictions.parquet": sha256(changed)}))
    *before, last = (run / "evidence.jsonl").read_bytes().splitlines()
    entry = json.loads(last)
    entry["predictions"][unit.name] = sha256(changed)
    lines = [*before, json.dumps(entry, sort_keys=True).encode()]
    (run / "evidence.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    Run(run).close()
    return run


def test_a_probability_that_differs_in_its_last_bit_stops_the_study(source, tmp_path, capsys):
    def nudged(rows):
        row = next(row for row in rows if row["path"] == "P1M1")
        row["policy"][2] = float(np.nextafter(row["policy"][2], 1))
        return rows

    other = rewritten(source, tmp_path / "ci", nudged)
    assert main(["verify", str(other)]) == 0
    name = next(r["name"] for r in rows(other, "audit-*") if r["path"] == "P1M1")
    out = tmp_path / "prefix"
    assert intervene(other, out) == 1
    message = capsys.readouterr().err
    assert "CARRY_1 is not what the run saved as P1M1" in message
    assert f"seed {SEED}, job {name} of o/a differs by" in message
    assert not list(out.glob("units/*/done.json"))[1:]  # what was read of the run, and no more
    assert main(["report", str(out)]) == 1
    assert "is not finished" in capsys.readouterr().err


def test_jobs_that_the_run_did_not_predict_are_refused(source, tmp_path, capsys):
    def relabelled(rows):
        return [{**row, "label": 1 - min(row["label"], 1)} for row in rows]

    other = rewritten(source, tmp_path / "ci", relabelled)
    assert intervene(other, tmp_path / "prefix") == 1
    assert "jobs differ between the job histories" in capsys.readouterr().err
    assert not (tmp_path / "prefix").exists()


def test_only_a_finished_and_whole_run_is_looked_at(source, run, tmp_path, capsys):
    out = tmp_path / "prefix"

    def refused(run, sentence, **options):
        assert intervene(run, out, **options) == 1
        assert sentence in capsys.readouterr().err
        assert not out.exists()

    assert main(["study", "prefix", "--out", str(out)]) == 1
    assert "with --run" in capsys.readouterr().err
    refused(tmp_path / "nowhere", "config.json is missing")
    refused(run, "is a run of 'prefix'; give one of `larc study ci`")
    refused(source, "no label arrives within the prefix of 22%", prefix="22%")
    refused(source, "'120%' is no prefix", prefix="120%")
    refused(source, "'0' is no prefix", prefix="0")
    copy = shutil.copytree(source, tmp_path / "ci")
    (copy / "units" / f"fit-{SEED}" / "curve.json").write_bytes(b"[]")
    refused(copy, "curve.json was changed")
    (copy / "manifest.json").unlink()
    refused(copy, "is not finished")


@pytest.mark.smollm2
def test_a_real_model_gives_its_own_probabilities_again(tmp_path):
    """Two threads and a batch of seven paths: what is repeated is still the same to the bit."""
    model = ["--substrate", "smollm2-135m", "--boundary", "28", "--threads", "2"]
    assert intervene(predict(tmp_path, *model), tmp_path / "prefix") == 0
    updates = rows(tmp_path / "prefix", "repeat-*", "updates")
    assert {row["path"] for row in updates} == {"CARRY_1"}
    assert len(updates) == BATCHES
