"""Program studies that start from another's states, and ones that choose settings."""

import shutil

import pytest

import larc
from larc.cli import main
from larc.domains.programs import split_groups
from larc.io.parquet import from_parquet
from larc.rules import parse_rule
from larc.runs.run import Run
from larc.state import read_slow

SMALL = ["--seeds", "2026092811", "--training-groups", "1", "--development-groups", "1"]


def study(out, *options):
    return main(
        ["study", "programs", "--preset", "smoke", *SMALL, *map(str, options), "--out", str(out)]
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("first") / "run"
    assert study(out, "--updates", 2) == 0
    return out


def predictions(path, arm):
    return Run(path).unit_file(f"predict-{arm}-2026092811", "predictions.parquet")


def names(path):
    return [row["name"] for row in from_parquet(predictions(path, "adapted"), "predictions")]


def test_states_are_used_as_they_are(trained, tmp_path):
    out = tmp_path / "again"
    assert study(out, "--start", trained, "--updates", 0) == 0
    for arm in ("static", "adapted", "untrained"):
        assert predictions(out, arm) == predictions(trained, arm)
    other = tmp_path / "descending"
    descent = ("--rule", "descent:1.0", "--inner-steps", 4)
    assert study(other, "--start", trained, "--updates", 0, *descent) == 0
    assert predictions(other, "adapted") != predictions(trained, "adapted")
    assert main(["verify", str(other)]) == 0
    # Three arms, real and sham, four steps of each target: every one was looked at, none raised.
    episodes = 2 * len(set(names(other)))
    targets = 3 * episodes
    told = (other / "tables" / "ledger.md").read_text()
    assert f"| total | checked | {4 * targets} |" in told
    assert "| total | raised | 0 |" in told
    evaluated = [
        Run(out).unit_json("predict-adapted-2026092811", "feedback.json")["evaluations"]
        for out in (trained, other)
    ]
    assert evaluated[0] == [2] * (episodes // 2)  # two steps of SGD, an evaluation each
    assert min(evaluated[1]) >= 4 * 2  # every step is a gradient and at least one trial
    # And not by the rule's own word: the probabilities that were read afterwards say the same.
    lines = (other / "tables" / "support.csv").read_text().splitlines()
    fitted = [line.split(",") for line in lines[1:]]
    assert len(fitted) == 6
    for arm, feedback, count, before, after, raised in fitted:
        assert int(count) == episodes // 2
        if feedback == "Real":
            assert (float(after) < float(before), int(raised)) == (True, 0), arm
    assert "checked" not in (trained / "tables" / "ledger.md").read_text()  # SGD does not look


def test_which_states_it_started_from_is_on_record(trained, tmp_path, capsys):
    """Another run at the same place, halfway through, is noticed; gone at the end, it is not."""
    start, out = tmp_path / "start", tmp_path / "run"
    shutil.copytree(trained, start)
    assert study(out, "--start", start, "--updates", 1) == 0
    (event,) = [one for one in Run(out).evidence() if one["event"] == "starts read"]
    assert set(event["slow"]) == {"train-static-2026092811", "train-adapted-2026092811"}
    shutil.rmtree(start)
    assert study(out, "--start", start, "--updates", 1) == 0
    shutil.rmtree(out / "units" / "train-adapted-2026092811")
    assert study(start, "--updates", 3) == 0
    assert study(out, "--start", start, "--updates", 1) == 1
    assert "not those that this run began with" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--boundary", "1"], "give --boundary 0 --rank 4"),
        (["--objectives", "exact"], "no state of the exact objective"),
        (["--seeds", "7"], "with seed 7"),
        (["--rule", "descent:1.0:8"], "give one step and --inner-steps"),
    ],
)
def test_states_that_are_not_there_are_refused_before_anything_is_made(
    trained, tmp_path, capsys, options, says
):
    out = tmp_path / "other"
    assert study(out, "--start", trained, *options) == 1
    assert says in capsys.readouterr().err
    assert not out.exists()


def test_a_run_from_before_these_settings_is_still_itself(trained, tmp_path):
    """They are in a run's configuration only where they are set, so older runs can be gone on."""
    settings = Run(trained).settings
    assert not {"acts_on", "start", "held_out"} & set(settings)
    assert study(trained, "--updates", 2) == 0


def test_a_sweep_over_no_steps_at_all_has_its_report(tmp_path):
    out = tmp_path / "sweep"
    assert study(out, "--updates", 0, "--sweep", "inner-steps=0,1") == 0
    assert (out / "report.html").exists()


def test_training_starts_from_them(trained, tmp_path):
    out = tmp_path / "more"
    assert study(out, "--start", trained, "--updates", 1) == 0
    content = Run(out).unit_file("train-adapted-2026092811", "slow.safetensors")
    assert larc.SlowState.from_bytes(content).version == 3
    assert main(["verify", str(out)]) == 0


def test_settings_are_chosen_on_preflight_groups(tmp_path):
    out = tmp_path / "choosing"
    assert study(out, "--updates", 0, "--held-out", "preflight") == 0
    rows = from_parquet(Run(out).unit_file("queries", "queries.parquet"), "queries")
    apart = {group.name for group in split_groups("preflight")}
    assert len(rows) == 8
    assert {row["group"] for row in rows} <= apart
    assert "preflight groups, to choose settings by" in (out / "report.md").read_text()


def test_settings_are_chosen_on_training_groups(tmp_path):
    out = tmp_path / "choosing"
    assert study(out, "--updates", 0, "--held-out", "training", "--objectives", "adapted") == 0
    rows = from_parquet(Run(out).unit_file("queries", "queries.parquet"), "queries")
    assert {row["group"] for row in rows} <= {group.name for group in split_groups("training")}


def test_a_sweep_over_paths_is_one_directory_deep(trained, tmp_path):
    out = tmp_path / "sweep"
    assert study(out, "--updates", 0, "--objectives", "adapted", "--sweep", f"start={trained}") == 0
    assert (out / "report.html").exists()
    assert main(["verify", str(out)]) == 0


def test_a_step_size_can_be_learned_with_the_adapted_start(trained, tmp_path, capsys):
    out = tmp_path / "learned"
    assert study(out, "--updates", 2, "--step-rate", 0.5) == 0
    unit = out / "units" / "train-adapted-2026092811"
    size = Run(out).unit_json(unit.name, "step.json")["step_size"]
    # Two updates of AdamW at this rate move the logarithm by no more than about its double.
    first = parse_rule(Run(out).settings["rule"]).step_size
    assert 1 / 2.8 < size / first < 2.8
    assert size != first
    slow = read_slow(unit / "slow.safetensors")
    assert slow.step_size == size
    assert not (out / "units" / "train-static-2026092811" / "step.json").exists()
    # Arms that learn no size are what they were.
    for arm in ("static", "untrained"):
        assert predictions(out, arm) == predictions(trained, arm)
    # Its predictions are made with the size learned, and with none other.
    for rate, same in ((0.5, True), (0, False)):
        again = tmp_path / f"again-{rate}"
        assert study(again, "--start", out, "--updates", 0, "--step-rate", rate) == 0
        assert (predictions(again, "adapted") == predictions(out, "adapted")) is same
        kept = read_slow(again / "units" / "train-adapted-2026092811" / "slow.safetensors")
        assert kept.digest == slow.digest
        given = tmp_path / f"given-{rate}"
        assert main(["package", str(again), "--objective", "adapted", "--out", str(given)]) == 0
        used = "slow)" if same else f"slow, rule=larc.{parse_rule(Run(again).settings['rule'])!r})"
        assert f"larc.Learner(substrate, {used}\n" in (given / "README.md").read_text()
        assert f"| {size:.4g} |" in (given / "README.md").read_text()
        told = f"learned step sizes of their own, by seed {size:.3g}, and were read with those"
        assert (told in (again / "report.md").read_text()) is same
    assert main(["verify", str(out)]) == 0
    length = tmp_path / "length"
    assert study(length, "--updates", 1, "--step-rate", 0.5, "--rule", "descent:1.0") == 0
    rule = Run(length).unit_json("train-adapted-2026092811", "step.json")["rule"]
    assert parse_rule(rule).length != 1.0
    assert f"by seed {rule}, and were read with those" in (length / "report.md").read_text()
    # Read with the length that was learned, and not with the one it was started with.
    plain = tmp_path / "plain"
    options = ("--start", length, "--updates", 0, "--rule", "descent:1.0")
    assert study(plain, *options) == 0
    assert predictions(plain, "adapted") != predictions(length, "adapted")
