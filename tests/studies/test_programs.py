"""The program-selection study, run from its command on the tiny model."""

import csv
import importlib.util
import json
import shutil
from pathlib import Path

import pytest

import larc
from larc.cli import main
from larc.domains.programs import ProgramEpisode
from larc.io.parquet import from_parquet
from larc.runs.run import Run
from larc.studies.episodic import report
from larc.studies.episodic import units as episodic
from larc.studies.programs.settings import PRESETS
from larc.studies.programs.tasks import program_tasks

GOLDEN = Path(__file__).parent / "golden"
SMALL = [
    *("--seeds", "2026092811", "--updates", "2", "--objectives", "adapted", "--resamples", "200"),
    *("--training-groups", "1", "--development-groups", "1"),
]


def small(out, *options):
    return main(["study", "programs", "--preset", "smoke", "--out", str(out), *SMALL, *options])


def predictions(out):
    return {
        path.parent.name: path.read_bytes()
        for path in sorted(out.glob("units/predict-*/predictions.parquet"))
    }


def test_the_presets_are_what_the_issue_of_the_study_asks_for():
    paper, quick = PRESETS["paper"], PRESETS["quick"]
    assert paper.seeds == (2026092811, 2026092812, 2026092813)
    assert (paper.updates, paper.batch, paper.inner_steps, paper.rule) == (256, 2, 2, "sgd:0.1")
    assert (paper.boundary, paper.rank, paper.resamples) == (0, 4, 10_000)
    assert paper.arms == ("static", "adapted", "untrained")
    assert (quick.substrate, quick.boundary, len(quick.seeds)) == ("smollm2-135m", 26, 1)
    assert (quick.rule, quick.arms) == ("descent:1.0", ("exact", "untrained"))
    for preset in (paper, quick):
        tasks = program_tasks(preset)
        assert (len(tasks.training), len(tasks.development)) == (2 * 16 * 4, 2 * 8 * 4)


def test_the_tables_of_smoke_are_pinned(smoke):
    """A change here is a change of the science: update the golden files only for a reason."""
    for name in ("endpoint", "contrasts", "controls", "secondary", "ledger"):
        table = (smoke / "tables" / f"{name}.md").read_text()
        assert table == (GOLDEN / f"{name}.md").read_text(), name


def test_a_run_explains_itself(smoke):
    assert {path.name for path in smoke.iterdir()} >= {
        "config.json",
        "evidence.jsonl",
        "manifest.json",
        "report.html",
        "report.md",
        "tables",
        "units",
    }
    assert not (smoke / "figures").exists()
    for kind in ("md", "tex", "csv"):
        assert (smoke / "tables" / f"contrasts.{kind}").stat().st_size > 100
    report = (smoke / "report.md").read_text()
    assert "larc study programs --preset smoke" in report
    manifest = json.loads((smoke / "manifest.json").read_text())
    assert len(manifest["made_with"]) == 1
    tiny = larc.load_substrate("tiny").identity
    assert manifest["made_with"][0]["substrate"]["weights"] == tiny.weights


def test_arms_are_paired_in_their_first_factors(smoke):
    run = Run(smoke)
    for seed in (2026092811, 2026092812):
        slow = [
            larc.SlowState.from_bytes(run.unit_file(f"train-{arm}-{seed}", "slow.safetensors"))
            for arm in ("static", "adapted")
        ]
        assert slow[0].origin.equal(slow[1].origin)
        assert slow[0].version == slow[1].version == 8
        assert not slow[0].factors.equal(slow[1].factors)


def test_arms_start_from_the_same_read_when_untrained_and_resets_agree(smoke):
    for path in smoke.glob("units/predict-*/predictions.parquet"):
        rows = from_parquet(path.read_bytes(), path.name)
        reads = {(row["cell"], row["name"]): row["policy"] for row in rows}
        cells = {cell for cell, _ in reads}
        assert cells == {"real_keep", "real_reset", "sham_keep", "sham_reset", "text"}
        for (cell, name), policy in reads.items():
            if cell == "real_reset":
                assert policy == reads["sham_reset", name]
                assert sum(policy) == pytest.approx(1, abs=1e-6)


def test_the_static_arm_does_the_same_support_work(smoke):
    run = Run(smoke)
    ledgers = [
        json.loads(run.unit_file(f"train-{arm}-2026092811", "ledger.json"))
        for arm in ("static", "adapted")
    ]
    static, adapted = (
        {
            kind: sum(row["calls"] for row in ledger if row["kind"] == kind)
            for kind in ("mixer", "backward")
        }
        for ledger in ledgers
    )
    assert static["backward"] == adapted["backward"] == 3 * 8
    # Its query is read where its first support step is, so it needs one forward fewer an update.
    assert static["mixer"] == adapted["mixer"] - 8


def test_time_and_memory_are_kept_by_operation_and_add_up(smoke):
    lines = (smoke / "tables" / "cost.csv").read_text().splitlines()
    assert lines[0] == "Unit,Other,Query,Support,Text,Sum,Peak MiB"
    rows = [line.split(",") for line in lines[1:]]
    for row in rows:
        assert sum(map(int, row[1:5])) == int(row[5])
        assert int(row[6]) > 50
    assert int(rows[-1][5]) == sum(int(row[5]) for row in rows[:-1])
    ledger = [
        line.split(",") for line in (smoke / "tables" / "ledger.csv").read_text().splitlines()
    ]
    for kind in ("mixer", "head", "backward"):
        for column in (2, 3, 4):
            parts = [int(row[column]) for row in ledger[1:] if row[1] == kind]
            assert sum(parts[:-1]) == parts[-1]  # the last is the total


def test_a_finished_run_says_so_and_does_nothing(smoke, capsys):
    before = {path: path.stat().st_mtime_ns for path in smoke.rglob("*") if path.name != "lock"}
    assert main(["study", "programs", "--preset", "smoke", "--out", str(smoke)]) == 0
    assert "finished already" in capsys.readouterr().out
    after = {path: path.stat().st_mtime_ns for path in smoke.rglob("*") if path.name != "lock"}
    assert after == before


def test_a_run_with_other_settings_is_refused(smoke, capsys):
    arguments = ["study", "programs", "--preset", "smoke", "--rank", "2", "--out", str(smoke)]
    assert main(arguments) == 1
    assert "rank = 4, not 2" in capsys.readouterr().err


def test_reports_are_made_again_from_what_was_saved_byte_for_byte(smoke, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(smoke, copy)
    shutil.rmtree(copy / "tables")
    assert main(["report", str(copy)]) == 0
    for path in sorted(smoke.rglob("*")):
        if path.is_file() and path.name not in ("lock",):
            assert (copy / path.relative_to(smoke)).read_bytes() == path.read_bytes(), path
    assert main(["verify", str(copy)]) == 0


def test_figures_are_drawn_where_they_are_wanted(smoke, tmp_path):
    out = tmp_path / "report"
    assert main(["report", str(smoke), "--out", str(out), "--figures"]) == 0
    for name in ("result", "curves", "groups"):
        assert (out / "figures" / f"{name}.svg").read_text().startswith("<?xml")
        assert (out / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert f"(figures/{name}.svg)" in (out / "report.md").read_text()
    assert not (smoke / "figures").exists()


def test_a_missing_package_is_told_before_any_work(tmp_path, capsys, monkeypatch, smoke):
    find = importlib.util.find_spec
    missing = ("pyarrow", "matplotlib")
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *more: None if name in missing else find(name, *more),
    )
    out = tmp_path / "run"
    assert main(["study", "programs", "--preset", "smoke", "--out", str(out)]) == 1
    assert "needs pyarrow; run `pip install 'larc-lm[studies]'`" in capsys.readouterr().err
    assert not out.exists()
    assert main(["report", str(smoke), "--out", str(out), "--figures"]) == 1
    assert "need matplotlib; run `pip install 'larc-lm[figures]'`" in capsys.readouterr().err
    assert not out.exists()


def test_json_computes_a_report_once(smoke, monkeypatch, capsys):
    calls = []
    compute = report.load_results

    def counted(run, **options):
        calls.append(run.path)
        return compute(run, **options)

    monkeypatch.setattr(report, "load_results", counted)
    assert main(["report", str(smoke), "--json"]) == 0
    assert len(calls) == 1
    assert json.loads(capsys.readouterr().out)["kind"] == "programs"


def test_queries_are_opened_only_after_predictions_are_on_record(tmp_path, monkeypatch):
    out = tmp_path / "run"
    real = ProgramEpisode.query_losses.fget
    opened = []

    def watched(episode):
        if episode.group.split == "development":
            events = [entry["event"] for entry in Run(out).evidence()]
            assert events == ["training finished", "predictions written", "queries opened"]
            opened.append(episode.name)
        return real(episode)

    monkeypatch.setattr(ProgramEpisode, "query_losses", property(watched))
    assert small(out) == 0
    assert len(opened) == 8


def test_a_stopped_run_carries_on_to_the_same_predictions(tmp_path, monkeypatch):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    monkeypatch.setattr(episodic, "CHECKPOINT_EVERY", 1)
    assert small(whole) == 0
    advance, calls = episodic.Trainer.advance, []

    def interrupted(trainer):
        calls.append(trainer.updates)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return advance(trainer)

    monkeypatch.setattr(episodic.Trainer, "advance", interrupted)
    assert small(stopped) == 130
    assert (stopped / "units/train-adapted-2026092811/checkpoint.safetensors").exists()
    assert small(stopped) == 0
    assert calls == [0, 1, 1]  # the first update was not made again
    assert predictions(stopped) == predictions(whole)
    for name in ("curve.json", "ledger.json", "slow.safetensors"):
        unit = f"units/train-adapted-2026092811/{name}"
        assert (stopped / unit).read_bytes() == (whole / unit).read_bytes()
    assert not (stopped / "units/train-adapted-2026092811/checkpoint.safetensors").exists()


def test_processes_side_by_side_give_the_same_predictions(tmp_path):
    assert small(tmp_path / "serial") == 0
    assert small(tmp_path / "parallel", "--workers", "2") == 0
    assert predictions(tmp_path / "parallel") == predictions(tmp_path / "serial")


def test_ray_gives_the_same_predictions(tmp_path):
    pytest.importorskip("ray")
    assert small(tmp_path / "serial") == 0
    assert small(tmp_path / "ray", "--engine", "ray") == 0
    assert predictions(tmp_path / "ray") == predictions(tmp_path / "serial")


def test_a_sweep_is_one_command_with_one_report(tmp_path, capsys):
    out = tmp_path / "sweep"
    assert small(out, "--sweep", "boundary=0,2", "--sweep", "rule=sgd:1.0,sgd:0.1") == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"the report is {out / 'report.html'}"
    page = (out / "report.html").read_text()
    assert "--sweep boundary=0,2 --sweep rule=sgd:1.0,sgd:0.1</pre>" in page
    assert 'href="boundary%3D2%2Crule%3Dsgd_0.1/report.html"' in page
    table = (out / "tables" / "sweep.md").read_text()
    assert table.count("| adapted |") == 4
    assert "| boundary | rule | Arm |" in table
    assert (out / "boundary=2,rule=sgd_0.1" / "report.md").exists()
    # Settings are compared by error, paired: against the first combination, arm by arm.
    with (out / "tables" / "sweep.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["Arm"] == "adapted"]
    assert rows[0]["Lower than the first"] == ""
    for row in rows[1:]:
        lower = float(rows[0]["Keep"]) - float(row["Keep"])
        assert float(row["Lower than the first"]) == pytest.approx(lower, abs=1e-5)
        assert row["Its interval"] == ""  # of two groups there is none
        assert float(row["Evaluations"]) == 2
    assert main(["verify", str(out)]) == 0


def test_fewer_examples_are_a_setting_like_any_other(tmp_path):
    assert small(tmp_path / "one", "--support", "1") == 0
    rows = from_parquet((tmp_path / "one/units/queries/queries.parquet").read_bytes(), "queries")
    assert all(set(row["support"]) <= {0.0, 1.0} for row in rows)


def test_the_final_evaluation_is_explicit_recorded_and_happens_once(tmp_path, capsys):
    out = tmp_path / "run"
    assert small(out) == 0
    events = [entry["event"] for entry in Run(out).evidence()]
    assert not any("final" in event for event in events)
    assert main(["study", "final", str(out)]) == 0
    events = [entry["event"] for entry in Run(out).evidence()]
    assert events[4:] == [
        "final evaluation begun",
        "final predictions written",
        "final-queries opened",
        "final-queries written",
    ]
    assert "reserved groups" in (out / "tables" / "final-controls.md").read_text()
    assert main(["verify", str(out)]) == 0
    capsys.readouterr()
    assert main(["study", "final", str(out)]) == 1
    assert "a run has one" in capsys.readouterr().err


def test_the_final_evaluation_waits_for_the_run(tmp_path, capsys):
    run = Run.start(tmp_path / "run", "programs", json.loads(_settings()))
    assert main(["study", "final", str(run.path)]) == 1
    assert "not finished" in capsys.readouterr().err


def _settings():
    from larc.settings import as_values

    return json.dumps(as_values(PRESETS["smoke"]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--boundry", "2"], "did you mean '--boundary'?"),
        (["--rank", "four"], "it takes a whole number"),
        (["--rule", "adam"], "names no update rule"),
        (["--objectives", "best"], "is unknown"),
        (["--boundary", "9"], "boundaries 0"),
        (["--sweep", "bundary=1"], "did you mean 'boundary'?"),
        (["--substrate", "nothing-here"], "there is no model 'nothing-here'"),
    ],
)
def test_wrong_settings_are_named(tmp_path, capsys, monkeypatch, options, message):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert small(tmp_path / "run", *options) in (1, 2)
    assert message in capsys.readouterr().err


def test_settings_come_from_a_file_too(tmp_path, capsys):
    config = tmp_path / "study.yaml"
    config.write_text("rank: 2\nupdates: 1\nseeds: [2026092811]\nobjectives: [static]\n")
    out = tmp_path / "run"
    arguments = ["study", "programs", "--preset", "smoke", "--config", str(config)]
    assert main([*arguments, "--updates", "2", "--out", str(out)]) == 0
    assert Run(out).settings["rank"] == 2
    assert Run(out).settings["updates"] == 2  # the command line is heard last
    config.write_text("rnk: 2\n")
    assert main([*arguments, "--out", str(out)]) == 1
    assert "did you mean 'rank'" in capsys.readouterr().err
