"""The synthesis study with the tiny model: every step, resumed and reported."""

import csv
import json
import math
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

import larc
from larc.cli import main
from larc.domains.programs import Group, Split
from larc.domains.programs.synthesis import Problem, build_problem
from larc.errors import LarcError
from larc.io.parquet import from_parquet
from larc.learner import Learner
from larc.progress import Display
from larc.proposals.improving import save_together
from larc.runs.run import Run
from larc.runs.settings import Execution
from larc.studies.registry import STUDIES
from larc.studies.running import run_study, verify_run
from larc.studies.synthesis import units
from larc.studies.synthesis.problems import Puzzles, check_apart, prepare
from larc.studies.synthesis.report import answer, report_tables
from larc.studies.synthesis.results import SynthesisResults, load_results, results_of
from larc.studies.synthesis.settings import PRESETS

SEED = 2026092811
# Long steps, so that a round of few texts shows what was learned.
RULE = "descent:3.0"
begin = Learner.begin
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
            right = [row["call"] for row in mine if row["loss"] == 0]
            assert len(mine) == 8 or right
            # Those of its round are judged together.
            assert not right or right[0] + SMALL.n > len(mine)


def test_conditions_differ_in_what_they_learned_alone(run):
    """The first round is drawn alike, before anything was learned."""

    def first(condition):
        return [row["text"] for row in searched(run, condition) if row["call"] <= 4]

    assert first("LEARN") == first("RESET") == first("SHAM") == first("TEXT")
    assert first("UNTRAINED") == first("UNTRAINED-LEARN") == first("UNTRAINED-TEXT")
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


def test_streams_are_of_the_seed_the_problem_and_their_purpose():
    """Seeds that follow each other share no streams with the problems that follow each other."""
    names = [problem.name for problem in prepare(replace(SMALL, groups=8)).searched]
    purposes = get_args(units.Purpose)
    seeds = {
        units.derived_seed(seed, name, purpose)
        for seed in range(SEED, SEED + 3)
        for name in names
        for purpose in purposes
    }
    assert len(seeds) == 3 * len(names) * len(purposes)


def test_problems_have_sham_streams_of_their_own(monkeypatch):
    begun = []
    monkeypatch.setattr(
        Learner, "begin", lambda self, seed: begun.append(seed) or begin(self, seed)
    )
    problems = prepare(SMALL).searched
    sham = next(one for one in units.CONDITIONS if one.name == "SHAM")
    unit = units.Searches(settings=SMALL, condition=sham, seed=SEED, problems=problems)
    unit.compute(larc.load_substrate("tiny"), Display())
    assert len(set(begun)) == len(problems) == len(begun)


@pytest.mark.parametrize(
    ("first", "second", "solved", "overfitted"),
    [(False, True, math.inf, 1), (True, False, 6, 0), (True, True, 6, 0)],
)
def test_the_first_text_that_is_right_on_its_examples_is_the_answer(
    first, second, solved, overfitted
):
    """Whatever else its round holds: a later one neither solves nor counts."""
    rows = [
        {
            "condition": "RESET",
            "seed": 1,
            "name": "a",
            "family": "list",
            "group": "g",
            "kind": "seen",
            "length": 1,
            "call": call,
            "text": text,
            "loss": loss,
            "late": text == "y",
        }
        for call, text, loss in ((5, "x", 0.5), (6, "one", 0.0), (7, "two", 0.0), (8, "y", 0.5))
    ]
    opened = [{"name": "a", "text": t, "right": r} for t, r in (("one", first), ("two", second))]
    outcome = results_of(rows, opened, {"seeds": [1], "calls": 64, "resamples": 10})
    assert outcome.solved_at["RESET"].tolist() == [[solved]]
    assert outcome.overfitted["RESET"] == overfitted
    assert outcome.losses["RESET"].tolist() == [[0.0]]
    assert outcome.late == {"RESET": 1}


def test_a_start_is_not_trained_on_what_is_searched():
    puzzles = prepare(SMALL)
    with pytest.raises(LarcError, match="trained on the answer"):
        check_apart(Puzzles(puzzles.searched[:1], puzzles.searched))
    one, same = (build_problem(Group("list", pair), "take") for pair in ((-6, 3), (-5, 3)))
    with pytest.raises(LarcError, match="trained on the answer of list/-5,3/take"):
        check_apart(Puzzles((one,), (same,)))
    check_apart(puzzles)


@pytest.mark.parametrize(("domain", "count"), [("programs", 4), ("functions", 3)])
def test_settings_can_be_chosen_on_other_problems(domain, count):
    chosen = {}
    how = replace(SMALL, domain=domain, updates=0)
    splits = ("development", "training") if domain == "functions" else get_args(Split)[:4]
    for problems in splits:
        if problems == "reserved":
            continue
        searched = prepare(replace(how, problems=problems)).searched
        chosen[problems] = {problem.name for problem in searched}
    assert len(chosen["development"]) == count
    if domain == "programs":
        assert not chosen["development"] & chosen["training"]
        assert not chosen["development"] & chosen["preflight"]
        searched = prepare(replace(how, problems="training")).searched
        groups = {p.group.split for p in searched if isinstance(p, Problem)}
        assert groups == {"training"}


def test_without_training_all_functions_are_searched():
    how = replace(SMALL, domain="functions", groups=12)
    assert len(prepare(replace(how, updates=0)).searched) == 36
    trained = prepare(how)
    assert len(trained.training) == len(trained.searched) == 18


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
        ({"problems": "training"}, "give --updates 0"),
        ({"domain": "functions", "problems": "preflight"}, "no preflight"),
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
        (1,) * count,
        {"LEARN": np.array([at])},
        {"LEARN": 0},
        {"LEARN": np.zeros((1, count))},
        {"LEARN": np.full((1, count), 64.0)},
        {"LEARN": 0},
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


def compared(learn, reset, sham, groups=8):
    """Results of three conditions on a problem of each group; evolution solves nothing."""
    at = {"LEARN": learn, "RESET": reset, "SHAM": sham, "EVOLUTION": [math.inf] * groups}
    count, names = groups, tuple(map(str, range(groups)))
    table = {name: np.array([calls]) for name, calls in at.items()}
    none = {name: np.ones((1, count)) for name in at}
    return SynthesisResults(
        tuple(at),
        (SEED,),
        64,
        names,
        ("list",) * count,
        names,
        ("seen", "held out") * (count // 2),
        (1, 2, 3, 4) * (count // 4),
        table,
        dict.fromkeys(at, 0),
        none,
        {name: np.full((1, count), 64.0) for name in at},
        dict.fromkeys(at, 0),
        2000,
    )


NEVER = math.inf


@pytest.mark.parametrize(
    ("learn", "reset", "says"),
    [
        ([1] * 8, [1, *[NEVER] * 7], "surely more than 1.5 times"),
        ([1] * 6 + [NEVER] * 2, [1] * 4 + [NEVER] * 4, "1.5 times as many or more, but not surely"),
        ([1] * 5 + [NEVER] * 3, [1] * 4 + [NEVER] * 4, "fewer than 1.5 times"),
    ],
)
def test_the_answer_says_whether_the_target_is_reached(learn, reset, says):
    told = answer(compared(learn, reset, [NEVER] * 8))
    assert says in told
    assert "EVOLUTION 0.0 %" in told


def test_a_ratio_is_resampled_with_both_of_its_parts():
    """Groups in which both solve alike: the ratio is sure, though the parts are not."""
    one = compared([1] * 4 + [NEVER] * 4, [1] * 4 + [NEVER] * 4, [NEVER] * 8)
    ratio = one.ratio(one.solved("LEARN", 64), one.solved("RESET", 64))
    assert (ratio.estimate, ratio.lower, ratio.upper) == (1, 1, 1)
    assert one.ratio(one.solved("LEARN", 64), one.solved("SHAM", 64)) is None
    twice = compared([1] * 8, [1] * 4 + [NEVER] * 4, [NEVER] * 8)
    ratio = twice.ratio(twice.solved("LEARN", 64), twice.solved("RESET", 64))
    assert ratio.estimate == 2
    assert 1 <= ratio.lower < 2 < ratio.upper


def test_below_sham_is_seen_wherever_it_happens():
    """At the end LEARN has more; after 8 calls it had fewer."""
    one = compared([20] * 8, [NEVER] * 8, [5] * 2 + [NEVER] * 6)
    assert "and -25.0 at the number of calls where that is least" in answer(one)
    (table,) = [table for table in report_tables(one) if table.name == "sham"]
    assert [row[-1] for row in table.rows] == [-25.0, -25.0]
    assert table.rows[0][-2] == 75.0
