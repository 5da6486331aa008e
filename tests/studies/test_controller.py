"""The controller study on a CI run of made-up jobs and the tiny model."""

import json

import numpy as np
import pytest

from larc.cli import main
from larc.domains.ci.texts import TEXTS
from larc.evaluation import half_brier
from larc.io.parquet import from_parquet
from larc.runs.run import Run
from larc.stream import controller as live
from larc.studies.controller import report as controller_report
from larc.studies.controller.units import CONTROLLER, LIVE, mix, variants

SEED = 2026092811
SMALL = ["--preset", "smoke", "--seeds", str(SEED), "--train", "6", "--audit", "8"]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "ci"
    assert main(["study", "ci", *SMALL, "--further", "yes", "--out", str(out)]) == 0
    return out


def study(source, out, *options):
    return main(["study", "controller", "--run", str(source), "--out", str(out), *options])


@pytest.fixture(scope="module")
def run(source, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "controller"
    assert study(source, out) == 0
    return out


def rows(out, units):
    files = sorted(out.glob(f"units/{units}/predictions.parquet"))
    return [row for path in files for row in from_parquet(path.read_bytes(), str(path))]


def test_every_job_is_answered_by_every_variant_and_live(source, run):
    jobs = {(row["repository"], row["name"]) for row in rows(source, "audit-*")}
    by_path = {}
    for row in (*rows(run, "mixed"), *rows(run, "live-*")):
        by_path.setdefault(row["path"], set()).add((row["repository"], row["name"]))
        assert sum(row["policy"]) == pytest.approx(1, abs=1e-6)  # means of float32 rows
    assert all(named == jobs for named in by_path.values())
    assert {CONTROLLER, LIVE, "plain mean", "no drift", "experts", "+ shrunk"} <= set(by_path)
    assert {"without carried", "without descending", "contexts by job"} <= set(by_path)
    told = json.loads((run / "units" / "mixed" / "trust.json").read_text())
    contexts = {row["variant"]: row.get("contexts") for row in told}
    assert (contexts[CONTROLLER], contexts["no contexts"]) == (1, 0)  # these have one workflow
    assert contexts["contexts by job"] > 1


def test_regrets_are_within_the_stated_bounds(run):
    results = controller_report.load_results(Run(run))
    assert results.told
    for told in results.told:
        if "regrets" in told:
            assert max(told["regrets"].values()) <= told["bound"]["total"]


def test_scores_are_those_of_the_saved_predictions(run):
    results = controller_report.load_results(Run(run))
    live_rows = sorted(
        ((r["repository"], r["name"]), r) for r in rows(run, "live-*") if r["path"] == LIVE
    )
    losses = half_brier(
        np.array([r["policy"] for _, r in live_rows]), [r["label"] for _, r in live_rows]
    )
    assert results.scores(LIVE) == pytest.approx([losses @ results.primary])
    text = (run / "report.md").read_text()
    assert "synthetic" in text
    assert "small and random" in text  # the tiny model
    for name in ("losses", "repositories", "ablation", "bounds", "trust", "turns", "naps"):
        assert (run / "tables" / f"{name}.csv").exists()


def test_repositories_weigh_equally_in_the_scores():
    loss = {
        CONTROLLER: np.array([[0.1, 0.3, 0.8, 0.2]]),
        "HEDGE4": np.array([[0.4, 0.0, 0.6, 0.0]]),
    }
    about = (("a", "a", "b", "b"), ("1", "2", "3", "3"), ("1", "2", "3", "4"))
    results = controller_report.ControllerResults((SEED,), *about, loss, (), synthetic=True)
    table = controller_report._places(results)
    assert table.columns == ("Predictor", "a", "b")
    shown = {name: losses for name, *losses in table.rows}
    assert shown["HEDGE4"] == pytest.approx([0.2, 0.3])
    assert shown[CONTROLLER] == pytest.approx([0.2, 0.5])
    assert np.mean(shown[CONTROLLER]) == pytest.approx(results.scores(CONTROLLER)[0])
    assert "HEDGE4 in a, HEDGE4 in b" in table.caption  # the lowest of what is mixed


def test_sleep_is_counted_from_who_answered_and_who_was_awake():
    """Two states and an expert, ten questions: one state sleeps, wakes, and sleeps again."""
    asked = {"P0M0": 10, "P1M0": 4, "HEDGE4": 10}
    told = {
        "variant": LIVE,
        "repository": "o/r",
        "seed": SEED,
        "awake": [[1, ["P0M0", "P1M0"]], [4, ["P0M0"]], [7, ["P1M0", "P0M0"]], [8, ["P0M0"]]],
        "trust": {"standings": {name: {"asked": count} for name, count in asked.items()}},
    }
    empty = controller_report.ControllerResults((SEED,), (), (), (), {}, (told,), synthetic=True)
    (row,) = controller_report._naps(empty).rows
    assert row == ["o/r", "2811", 10, 14, pytest.approx(30.0), 2, 1, 1]


def test_the_run_verifies_and_a_second_one_is_the_same_bytes(source, run, tmp_path):
    assert main(["verify", str(run)]) == 0
    assert study(source, tmp_path / "again") == 0
    for path in sorted(run.glob("units/*/*.*")):
        if path.name not in ("cost.json", "done.json"):
            again = tmp_path / "again" / path.relative_to(run)
            assert again.read_bytes() == path.read_bytes(), path


def test_stopping_anywhere_changes_nothing(source, run, tmp_path, monkeypatch):
    """Ended after some events, it goes on from its checkpoint to the same predictions."""
    out = tmp_path / "stopped"
    ask, count = live.Controller.ask, 0

    def stopping(self, *args, **kwargs):
        nonlocal count
        count += 1
        if count == 6:
            raise KeyboardInterrupt
        return ask(self, *args, **kwargs)

    monkeypatch.setattr("larc.runs.units.CHECKPOINT_EVERY", 4)
    monkeypatch.setattr(live.Controller, "ask", stopping)
    assert study(source, out) == 130
    monkeypatch.setattr(live.Controller, "ask", ask)
    assert study(source, out) == 0
    for name in ("predictions.parquet", "trust.json", "ledger.json"):
        for path in sorted(run.glob(f"units/live-*/{name}")):
            assert (out / path.relative_to(run)).read_bytes() == path.read_bytes()


def test_a_mixture_never_knows_a_label_before_it_arrives(source):
    told = {}
    for row in rows(source, "audit-*"):
        if row["repository"] == min(r["repository"] for r in rows(source, "audit-*")):
            told.setdefault(row["name"], {})[row["path"]] = row["policy"]
    from larc.domains.ci.prompter import recorded_job
    from larc.studies.audited_run import AboutRun, audited

    split = audited(AboutRun(run=str(source))).split
    items = [recorded_job(job) for job in split.audit if recorded_job(job).name in told]
    items = sorted(items, key=lambda item: item.asked)
    variant = variants(list(told[items[0].name]))[0]
    before = {item.name: policy for item, policy in mix(items, told, variant)[0]}
    from dataclasses import replace

    last = items[len(items) // 2]
    changed = [replace(i, label=(i.label + 1) % 4) if i.arrives >= last.asked else i for i in items]
    after = {item.name: policy for item, policy in mix(changed, told, variant)[0]}
    for item in items:
        if item.asked <= last.asked:
            assert after[item.name] == before[item.name]


def test_it_says_what_it_needs(tmp_path, capsys):
    assert main(["study", "controller", "--out", str(tmp_path / "none")]) == 1
    assert "--run" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_without_the_live_replay_only_saved_predictions_are_mixed(source, tmp_path):
    out = tmp_path / "mixed"
    assert study(source, out, "--live", "no") == 0
    assert not list(out.glob("units/live-*"))
    told = json.loads((out / "units" / "mixed" / "trust.json").read_text())
    assert {row["variant"] for row in told} >= {CONTROLLER, "experts"}


def test_experts_for_text_are_mixed_in_where_it_is_asked_for(source, run, tmp_path):
    out = tmp_path / "texts"
    assert study(source, out, "--texts", "yes", "--live", "no") == 0
    worded = rows(out, "worded")
    jobs = {(row["repository"], row["name"]) for row in rows(source, "audit-*")}
    for path in TEXTS:
        assert {(r["repository"], r["name"]) for r in worded if r["path"] == path} == jobs
    assert {"text", "without text"} & {row["path"] for row in rows(out, "mixed")}
    told = json.loads((out / "units" / "mixed" / "trust.json").read_text())
    (whole,) = [
        t for t in told if t["variant"] == CONTROLLER and t["repository"] == told[0]["repository"]
    ]
    assert set(TEXTS) <= set(whole["regrets"])
    # Without them the mixture is what it was.
    before = {(r["name"], r["path"]): r["policy"] for r in rows(run, "mixed")}
    without = {r["name"]: r["policy"] for r in rows(out, "mixed") if r["path"] == "without text"}
    assert all(before[name, CONTROLLER] == policy for name, policy in without.items())
    assert "experts for text" in (out / "report.md").read_text()
