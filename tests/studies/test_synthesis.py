"""The synthesis study with the tiny model: every step, resumed and reported."""

import csv
import json
import math
from dataclasses import replace

import numpy as np
import pytest

from larc.cli import main
from larc.errors import LarcError
from larc.io.parquet import from_parquet
from larc.proposals.improving import save_together
from larc.runs.run import Run
from larc.runs.settings import Execution
from larc.studies.registry import STUDIES
from larc.studies.running import run_study, verify_run
from larc.studies.synthesis import units
from larc.studies.synthesis.results import SynthesisResults, load_results
from larc.studies.synthesis.settings import PRESETS

SEED = 2026092811
# Long steps, so that a round of few texts shows what was learned.
RULE = "descent:3.0"
SMALL = replace(
    PRESETS["smoke"], seeds=(SEED,), groups=1, calls=8, boundary=2, updates=1, rule=RULE
)


def carried_out(out, **changed):
    return run_study(STUDIES["synthesis"], replace(SMALL, **changed), out, Execution())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "synthesis"
    options = ["--seeds", str(SEED), "--groups", "1", "--calls", "8", "--boundary", "2"]
    options += ["--updates", "1", "--rule", RULE, "--out", str(out)]
    assert main(["study", "synthesis", "--preset", "smoke", *options]) == 0
    return out


def files(out):
    kept = ("searches.parquet", "slow.safetensors", "queries.parquet", "ledger.json")
    paths = [path for name in kept for path in sorted(out.glob(f"units/*/{name}"))]
    return {str(path.relative_to(out)): path.read_bytes() for path in paths}


def searched(out, condition):
    content = (out / "units" / units.search_name(condition, SEED) / "searches.parquet").read_bytes()
    return from_parquet(content, condition)


def test_a_run_is_whole_and_reported(run):
    assert "searches were on record before the queries were opened" in verify_run(run)
    assert (run / "report.html").is_file()
    with (run / "tables" / "success.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["Condition"] for row in rows] == [
        *(condition.name for condition in units.CONDITIONS),
        *units.WITHOUT_MODEL,
    ]
    assert main(["report", str(run), "--figures"]) == 0
    assert list(run.glob("figures/success.*"))


def test_every_condition_has_the_same_number_of_calls(run):
    problems = {row["name"] for row in searched(run, "RESET")}
    assert len(problems) == 4
    for condition in [*(one.name for one in units.CONDITIONS), *units.WITHOUT_MODEL]:
        rows = searched(run, condition)
        assert {row["name"] for row in rows} == problems
        for name in problems:
            mine = [row for row in rows if row["name"] == name]
            assert [row["call"] for row in mine] == list(range(1, len(mine) + 1))
            assert len({row["text"] for row in mine}) == len(mine)
            assert len(mine) == 8 or mine[-1]["loss"] == 0
            assert all(row["loss"] > 0 for row in mine[:-1])


def test_conditions_differ_in_what_they_learned_alone(run):
    """The first round is drawn alike, before anything was learned."""

    def first(condition):
        return [row["text"] for row in searched(run, condition) if row["call"] <= 4]

    assert first("LEARN") == first("RESET") == first("SHAM") == first("TEXT")
    assert first("UNTRAINED") == first("UNTRAINED-LEARN")
    assert first("HOT") != first("RESET")
    after = [[r["text"] for r in searched(run, c)] for c in ("LEARN", "RESET", "SHAM", "TEXT")]
    assert all(after[0] != other for other in after[1:])


def test_resuming_is_the_same_run(run, tmp_path, monkeypatch):
    """Stopped after every saved step of a training and of searches, and gone on with."""
    stops = {"left": 3}
    saving = save_together

    def save(*arguments):
        saving(*arguments)
        if stops["left"]:
            stops["left"] -= 1
            raise KeyboardInterrupt

    monkeypatch.setattr(units, "save_together", save)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            carried_out(tmp_path / "stopped")
    carried_out(tmp_path / "stopped")
    stopped, whole = files(tmp_path / "stopped"), files(run)
    ledgers = [name for name in whole if name.endswith("ledger.json")]
    for name in ledgers:  # what was kept below a boundary is computed again
        counts = [
            {(r["operation"], r["kind"]): r["calls"] for r in json.loads(c) if r["kind"] != "below"}
            for c in (stopped.pop(name), whole.pop(name))
        ]
        assert counts[0] == counts[1]
    assert stopped == whole


def test_a_checkpoint_is_no_part_of_a_finished_run(run):
    assert not list(run.glob("units/*/checkpoint.safetensors"))


def test_without_training_there_is_one_start(tmp_path):
    out = carried_out(tmp_path / "run", updates=0, calls=4).path
    names = {path.name for path in (out / "units").iterdir()}
    assert not any("untrained" in name or name.startswith("fit") for name in names)
    assert load_results(Run(out)).conditions


def test_functions_are_judged_by_their_tests(tmp_path):
    out = tmp_path / "run"
    options = ["--seeds", str(SEED), "--groups", "1", "--calls", "4", "--updates", "0"]
    options += ["--domain", "functions", "--out", str(out)]
    assert main(["study", "synthesis", "--preset", "smoke", *options]) == 0
    rows = searched(out, "RESET")
    assert {row["family"] for row in rows} == {"lists", "numbers", "text"}
    assert {row["loss"] for row in rows} <= {0.0, 1 / 3, 2 / 3, 1.0}
    names = {path.name for path in (out / "units").iterdir()}
    assert not any("evolution" in name for name in names)
    verify_run(out)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"groups": 9}, "8 held-out groups"),
        ({"temperature": 0.0}, "temperature is 0.0"),
        ({"rule": "none"}, "names no update rule"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is(tmp_path, changed, sentence):
    with pytest.raises(LarcError, match=sentence):
        carried_out(tmp_path / "run", **changed)
    assert not (tmp_path / "run").exists()


def results(at, groups):
    count = len(groups)
    return SynthesisResults(
        ("LEARN",),
        (1,),
        64,
        tuple(map(str, range(count))),
        ("list",) * count,
        tuple(groups),
        ("seen",) * count,
        {"LEARN": np.array([at])},
        {"LEARN": 0},
        {"LEARN": np.zeros((1, count))},
        1000,
    )


def test_success_is_counted_by_group_and_bounded_over_groups():
    one = results([8, math.inf, 16, math.inf, 1, 64], ["a", "a", "b", "c", "d", "d"])
    (at,) = one.interval([one.solved("LEARN", 64)], one.of_kind())
    assert at.estimate == pytest.approx(100 * (0.5 + 1 + 0 + 1) / 4)
    assert at.lower < at.estimate < at.upper
    (early,) = one.interval([one.solved("LEARN", 8)], one.of_kind())
    assert early.estimate == pytest.approx(100 * (0.5 + 0 + 0 + 0.5) / 4)


def test_few_groups_give_no_interval():
    one = results([8, math.inf, 16], ["a", "b", "c"])
    (at,) = one.interval([one.solved("LEARN", 64)], one.of_kind())
    assert (at.lower, at.upper, at.text) == (None, None, "–")
