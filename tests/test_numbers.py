"""What pages say of the results: their numbers are those of the results, their words are so."""

import itertools

import numpy as np
import pytest

from larc.evaluation import bootstrap_intervals, group_means
from larc.runs.run import Run
from larc.studies.episodic.names import training_name
from larc.studies.episodic.results import BOOTSTRAP_SEED, load_results
from tests.pages import ROOT, named
from website.pages import FIGURES, figure, pages, renewed
from website.paper import PAPER
from website.picture import PICTURE, picture
from website.published import RESULTS, published, rows
from website.tables import joined


@pytest.mark.parametrize("page", pages(), ids=named)
def test_numbers_on_pages_are_those_of_the_results(page):
    text = page.read_text(encoding="utf-8")
    assert renewed(text) == text, "run `python -m website`"
    # Every opening comment was understood, and none is left without its end.
    assert text.count("<!-- from results: ") == text.count("<!-- end -->")


def test_the_picture_is_that_of_the_results():
    assert PICTURE.read_text(encoding="utf-8") == picture(), "run `python -m website`"


@pytest.mark.parametrize("shown", FIGURES, ids=named)
def test_the_figures_on_pages_are_the_published_ones(shown):
    assert shown.read_bytes() == figure(*FIGURES[shown]), "run `python -m website`"


def test_the_tour_shows_the_headline():
    shown = (ROOT / "docs/tour.md").read_text(encoding="utf-8")
    risk = next(r for r in rows("programs-best", "controls") if r["Objective"] == "Exact")
    for cell in ("Real/reset", "Real/keep", "Sham/keep", "Rule"):
        assert f"{risk[cell]:.2f}" in shown


def test_the_readme_shows_where_it_does_not_pay_as_large_as_where_it_does():
    shown = (ROOT / "README.md").read_text(encoding="utf-8")
    assert shown.index("Does it pay?") < shown.index("Three commands")
    table = [line for line in shown.splitlines() if line.startswith("| ") and "**" in line]
    verdicts = " ".join(table)
    assert "**worse**" in verdicts
    assert "**not told apart**" in verdicts


SEEDS = ("2811", "2812", "2813")
# The published run that has our table of the same definition, and what it is called there.
OURS = {
    **{name: ("programs", name) for name in ("endpoint", "contrasts", "controls", "secondary")},
    **{name: ("ci", name) for name in ("replay", "effects", "strata", "weightings")},
    **{name: ("prefix", name) for name in ("prefix", "first")},
    "prefix-effects": ("prefix", "effects"),
}


def test_every_table_of_the_papers_has_one_of_ours():
    assert set(OURS) == set(PAPER)


@pytest.mark.parametrize("table", OURS)
def test_the_papers_rows_have_the_columns_of_ours(table):
    ours = rows(*OURS[table])
    named = set(PAPER[table][0])
    assert set(ours[0]) <= named
    assert named - set(ours[0]) <= set(SEEDS[1:])  # seeds that a run may lack
    assert len(joined(PAPER[table], ours).rows) == len(PAPER[table]) - 1 + len(ours)


def test_the_papers_gains_are_those_it_states():
    # Its text has these, from losses that were not rounded.
    stated = {
        "effects": {"G: reset minus keep, with memory": -0.0534, "D: permuted minus real": 0.1497},
        "prefix-effects": {"Smaller carried update": -0.0237, "History removed, a tenth": 0.0976},
    }
    for table, gains in stated.items():
        tabulated = {row[0]: row[-2] for row in PAPER[table][1:]}
        for name, gain in gains.items():
            assert tabulated[name] == pytest.approx(gain, abs=1.5e-4)


def of_paper(table):
    """Rows of a table of the paper's, by their first cell."""
    names, *cells = PAPER[table]
    return {row[0]: dict(zip(names, row, strict=True)) for row in cells}


def report_of(run):
    return published(run).documents()["report.md"].decode()


def test_what_results_say_in_words_is_so():
    replay = {row["Path"]: row for row in rows("ci", "replay")}
    loss = {path: row["Mean"] for path, row in replay.items()}
    others = [name for name in loss if name != "logistic"]
    assert loss["P1M1"] > loss["P0M1"]
    assert loss["PERM_M1"] > loss["P1M1"]
    assert max(loss["P0M0"], loss["P0M1"]) < loss["HEDGE4"]
    assert loss["logistic"] < min(loss[name] for name in others)
    effects = {row["Contrast"]: row for row in rows("ci", "effects")}
    by_seed = {name: [row[seed] for seed in SEEDS] for name, row in effects.items()}
    for hurts in ("G: reset minus keep, with memory", "G: reset minus keep, without memory"):
        assert max(by_seed[hurts]) < -3 * 0.02
    assert max(by_seed["Memory at reset"]) < 0 < min(by_seed["HEDGE4 minus P0M1"])
    for weighting in rows("ci", "weightings"):
        ordered = [weighting[name] for name in ("Reset", "HEDGE4", "Keep", "Permuted")]
        assert ordered == sorted(ordered)
    for stratum in (row for row in rows("ci", "strata") if row["Label"] != "All"):
        assert stratum["Keep"] > stratum["Reset"] or stratum["Repository"] == "apache/ozone"
    gains = {row["Gain"]: [row[seed] for seed in SEEDS] for row in rows("prefix", "effects")}
    assert min(gains["Smaller carried update"]) > 0.01
    assert max(gains["LATEST_TENTH over RESET"]) < 0 < min(gains["History removed, a tenth"])
    assert "meets the rule" in report_of("prefix")
    costs = [gains[f"{path} over RESET"] for path in ("CARRY_1", "CARRY_TENTH", "LATEST_1")]
    for part in costs[1:]:
        assert 0.4 < sum(part) / sum(costs[0]) < 0.6
    assert sum(gains["LATEST_TENTH over RESET"]) / sum(costs[0]) < 0.1
    assert max(max(gains[f"{path} over RESET"]) for path in ("CARRY_1", "CARRY_TENTH")) < 0
    assert min(gains["History removed, original update"]) > 0
    hedged = {path: gains[f"{path} over HEDGE4"] for path in ("CARRY_TENTH", "LATEST_1", "RESET")}
    assert max(gains["CARRY_1 over HEDGE4"]) < 0 < min(map(min, hedged.values()))
    theirs = of_paper("prefix-effects")
    assert theirs["Smaller carried update"]["Mean"] < 0
    removed = theirs["History removed, original update"]
    assert min(removed[seed] for seed in SEEDS) < 0 < max(removed[seed] for seed in SEEDS)
    assert min(theirs["History removed, a tenth"][seed] for seed in SEEDS) > 0
    assert max(row["Mean"] for name, row in theirs.items() if "over HEDGE4" in name) < 0
    first = {row["Repository"]: row for row in rows("prefix", "first")}
    assert all(row["Original increment"] < row["Before update"] for row in first.values())
    assert first["bitcoin/bitcoin"]["Labels"] == "1 other"
    crossed = [r for r in rows("prefix", "crossings") if r["Repository"] == "bitcoin/bitcoin"]
    assert {row["Batches"] for row in crossed} == {"1"}
    shares = [int(r["Prefix jobs"]) / int(r["Audit jobs"]) for r in rows("prefix", "population")]
    assert 0.22 < min(shares) < max(shares) < 0.24
    updates = {row["Update path"]: row for row in rows("prefix", "updates")}
    assert int(updates["CARRY_1"]["Raised"]) < 0.02 * int(updates["CARRY_1"]["Updates"])
    assert int(updates["LATEST_1"]["Raised of those"]) > int(updates["LATEST_1"]["Surprising"]) / 2
    assert int(updates["DESCENT"]["Raised"]) == 0
    parts = {row["Variant"]: row for row in rows("controller", "ablation")}
    assert {row["Rule"] for row in parts.values()} == {"yes"}
    assert all(replay["prior"][seed] == replay["commit"][seed] for seed in SEEDS)
    for single in ("prior", "commit", "logistic", "P0M0", "P0M1"):
        assert max(replay[single][seed] for seed in SEEDS) < loss["HEDGE4"]
        assert loss[single] <= loss["HEDGE4"] - 0.01
    assert loss["last"] > loss["HEDGE4"] > loss["P0M1"] > loss["prior"]
    more = [f"{loss[path] - loss['P0M1']:.2f}" for path in ("DESCENT_M1", "P1M1")]
    assert more == ["0.04", "0.09"]
    longest = next(row for row in rows("prefix", "updates") if row["Update path"] == "DESCENT")
    assert longest["Largest increment"] <= 0.1
    worth = {name: row["Loss"] for name, row in parts.items()}
    assert worth["without shrunk"] > worth["experts"] > worth["CONTROLLER"]
    assert max(worth["without carried"], worth["without descending"]) < worth["CONTROLLER"]
    assert worth["no drift"] < worth["CONTROLLER"] < worth["one rate"]
    assert loss["logistic"] < min(worth.values())
    assert worth["LIVE"] <= worth["CONTROLLER"]
    assert parts["CONTROLLER"]["Contexts"] == "1"
    live = [row for row in rows("controller", "trust") if row["Controller"] == "LIVE"]
    trusted = {repository: [] for repository in ("apache/ozone", "bitcoin/bitcoin")}
    for row in sorted(live, key=lambda row: -row["Mean weight"]):
        trusted[row["Repository"]].append(row["Predictor"])
    assert set(trusted["apache/ozone"][:6]) == {"TENTH_M0", "TENTH_M1"}
    assert set(trusted["bitcoin/bitcoin"][:6]) == {"logistic", "P0M0"}
    where = {row["Predictor"]: row for row in rows("controller", "repositories")}
    mixed = [name for name in where if name not in ("CONTROLLER", "LIVE")]
    ranked = {
        repository: sorted(mixed, key=lambda name: where[name][repository])
        for repository in trusted
    }
    assert set(ranked["apache/ozone"][:2]) == {"TENTH_M0", "TENTH_M1"}
    assert ranked["bitcoin/bitcoin"][:2] == ["logistic", "P0M0"]
    assert {"TENTH_M0", "TENTH_M1"} < set(ranked["bitcoin/bitcoin"][-6:])
    assert where["LIVE"]["bitcoin/bitcoin"] > where["prior"]["bitcoin/bitcoin"]
    assert where["P1M0"]["apache/ozone"] < where["P0M0"]["apache/ozone"]
    naps = {(row["Repository"], row["Seed"]): row for row in rows("controller", "naps")}
    assert all(int(row["Woken"]) > 0 for row in naps.values())
    assert max(row["Spared"] for row in naps.values()) < 25
    gains = {row["Contrast"]: row["Mean"] for row in rows("programs-26", "contrasts")}
    assert gains["Static G"] < 3


def test_what_the_input_says_of_ci_jobs_is_so():
    loss = {row["Path"]: row["Mean"] for row in rows("ci-input", "replay")}
    late = {row["Path"]: row["2811"] for row in rows("ci", "replay")}
    for losses in (loss, late):
        assert losses["PERM_M1"] > losses["P1M1"] > losses["HEDGE4"] > losses["P0M1"]
        assert losses["P1M0"] > losses["P0M0"]
    assert all(loss[path] < late[path] for path in ("P0M0", "P0M1"))
    assert abs(loss["P0M0"] - loss["P0M1"]) < 0.001
    assert loss["P1M1"] < loss["P1M0"] - 0.03


def test_what_programs_say_in_words_is_so():
    end = {row["Objective"]: row for row in rows("programs", "endpoint")}
    risk = {row["Objective"]: row for row in rows("programs", "controls")}
    gain = {row["Contrast"]: row for row in rows("programs", "contrasts")}
    paper = of_paper("endpoint")
    assert [round(end["Adapted"][name]) for name in ("Mean", *SEEDS)] == [24, 9, 34, 30]
    assert abs(end["Adapted"]["Mean"] - paper["Adapted"]["Mean"]) < 0.5
    assert abs(end["Adapted"]["Seed SD"] - paper["Adapted"]["Seed SD"]) < 3
    assert end["Static"]["Seed SD"] < paper["Static"]["Seed SD"] / 2
    theirs = of_paper("contrasts")
    shown = ("Adapted G", "Static G", "Δobj")
    assert [round(theirs[name]["Mean"]) for name in shown] == [37, 25, 5]
    for objective, other in itertools.product(("Static", "Adapted"), ("G", "D")):
        contrast = gain[f"{objective} {other}"]
        assert contrast["Mean"] > 3
        assert min(contrast[seed] for seed in SEEDS) > 0
        assert float(contrast["99 % interval"].strip("[").split(",")[0]) > 0
    worse = [
        x["Adapted"]["Real/reset"] - x["Static"]["Real/reset"] for x in (risk, of_paper("controls"))
    ]
    assert [round(points) for points in worse] == [4, 7]
    text_effect = {
        name: row["Text"] - row["Real/reset"] for name, row in of_paper("controls").items()
    }
    assert text_effect["Static"] > 7
    assert abs(text_effect["Adapted"]) < 0.3
    assert {row["Rule"] for row in risk.values()} == {0.0}
    assert [round(gain[name]["Mean"]) for name in ("Adapted G", "Static G", "Δobj")] == [39, 5, 30]
    assert min(gain[name][seed] for name in ("Static G", "Δobj") for seed in SEEDS) > 3
    assert "adapted has the best worst seed" in report_of("programs")
    for arm in risk.values():
        assert abs(arm["Text"] - arm["Real/reset"]) < 1
        assert abs(arm["Sham/keep"] - arm["Real/reset"]) < 2
    assert f"{gain['Untrained G']['Mean']:.2f}" == "0.06"
    best = {(r["Objective"], r["Read state"]): r for r in rows("programs", "secondary")}
    greedy = best["Adapted", "Adapted state"]["Greedy error"]
    assert round(greedy) == 7
    assert (
        greedy
        < next(row[3] for row in PAPER["secondary"] if row[:2] == ("Adapted", "Adapted state")) / 2
    )
    places = {(r["boundary"], r["Arm"]): r for r in rows("programs-boundary", "sweep")}
    by_place = sorted(
        ("0", "12", "20", "26"), key=lambda boundary: places[boundary, "adapted"]["Keep"]
    )
    assert by_place[:2] == ["0", "26"]
    assert max(places[boundary, "static"]["G"] for boundary in by_place if boundary != "0") < 3
    assert max(places[boundary, "untrained"]["G"] for boundary in by_place) < 0.3
    assert min(end["Adapted"][seed] for seed in SEEDS[1:]) > 3 * end["Adapted"]["2811"]
    depth = {row["boundary"]: row for row in rows("programs-depth", "sweep")}
    assert [round(depth[boundary]["Keep"]) for boundary in ("0", "12", "20", "26")] == [
        24,
        21,
        17,
        8,
    ]
    assert depth["26"]["ms"] < 0.27 * depth["0"]["ms"]
    beyond = {
        boundary: float(row["Its interval"].strip("[").split(",")[0]) > 0
        for boundary, row in depth.items()
        if row["Its interval"]
    }
    assert beyond == {"12": False, "20": True, "26": True}
    by_seed = {
        boundary: next(r for r in rows(f"programs-depth/boundary={boundary}", "endpoint"))
        for boundary in depth
    }
    assert all(by_seed["26"][seed] < by_seed["12"][seed] for seed in SEEDS)
    assert [by_seed["26"][seed] < by_seed["0"][seed] for seed in SEEDS] == [False, True, True]
    assert max(by_seed, key=lambda boundary: by_seed[boundary]["Seed SD"]) == "0"
    chosen = {row["Objective"]: row for row in rows("programs-best", "endpoint")}
    assert f"{chosen['Exact']['Mean']:.2f}" == "1.07"
    assert max(chosen["Exact"][seed] for seed in SEEDS) < 1.4
    assert f"{chosen['Adapted']['Mean']:.1f}" == "4.3"
    assert chosen["Adapted"]["Seed SD"] > chosen["Exact"]["Seed SD"]
    best = {(r["Objective"], r["Read state"]): r for r in rows("programs-best", "secondary")}
    assert f"{best['Exact', 'Adapted state']['Greedy error']:.1f}" == "0.2"
    assert round(chosen["Untrained"]["Mean"]) == 35
    assert sorted(chosen["Adapted"][seed] > 5 for seed in SEEDS) == [False, True, True]
    risk = {row["Objective"]: row for row in rows("programs-best", "controls")}
    assert all(abs(arm["Sham/keep"] - arm["Real/reset"]) < 2 for arm in risk.values())
    assert {row["Rule"] for row in risk.values()} == {0.0}
    ranks = {
        row["rank"]: row["Keep"]
        for row in rows("programs-rank", "sweep")
        if row["Arm"] == "adapted"
    }
    assert min(ranks, key=ranks.get) == "4"
    sixteen = rows("programs-rank/rank=16", "contrasts")
    assert round(next(row["Mean"] for row in sixteen if row["Contrast"] == "Adapted G")) == 15
    weight = [row for row in rows("programs-weight", "sweep") if row["Arm"] == "adapted"]
    assert weight[1]["G"] < 0.5
    ranks = {row["rank"]: row for row in rows("programs-rank-descent", "sweep")}
    assert min(ranks, key=lambda rank: ranks[rank]["Keep"]) == "4"
    stream, weight = rows("programs-weight-descent", "sweep")
    assert stream["Keep"] < weight["Keep"]
    assert min(row["G"] for row in (*ranks.values(), weight)) > 40
    two, _ = rows("programs-descent", "sweep")
    assert f"{two['Keep']:.1f}" == "1.3"
    assert two["Evaluations"] == 4
    fixed = next(row for row in rows("programs-weight", "sweep") if row["Arm"] == "adapted")
    assert (round(fixed["Keep"]), fixed["Evaluations"]) == (11, 2)
    steps = {row["inner_steps"]: row for row in rows("programs-steps", "sweep")}
    assert f"{steps['2']['Keep']:.2f}" == "1.07"  # those of programs-best
    assert f"{steps['8']['Keep']:.2f}" == "0.44"
    assert f"{rows('programs-exact', 'endpoint')[0]['Mean']:.1f}" == "2.6"
    assert "it makes 0.57\u00a0%" in renewed("<!-- from results: rule programs -->\n<!-- end -->")
    assert abs(steps["4"]["Keep"] - steps["8"]["Keep"]) < 0.01
    assert steps["4"]["Evaluations"] < 0.5 * steps["8"]["Evaluations"]
    assert round(steps["1"]["Keep"]) == 15
    (one,) = rows("programs-steps/inner_steps=1", "endpoint")
    assert round(one["2811"]) == 13
    assert min(row["Reset"] for row in steps.values()) > 60


def test_what_is_left_at_eight_steps_is_an_episode_that_feedback_cannot_decide():
    results = load_results(Run(RESULTS / "programs-steps" / "inner_steps=8"))
    by_seed = results.risk["exact", "real_keep"]
    risk = by_seed.mean(0)
    worst = int(risk.argmax())
    assert np.sort(risk)[-2] < 0.003
    tied = np.flatnonzero(results.even > 0)
    assert sorted(round(100 * float(results.even[index])) for index in tied) == [17, 20]
    assert results.even[worst] == 0.2
    (other,) = (int(index) for index in tied if index != worst)
    assert by_seed[:, other].max() < 5e-5
    assert max(results.rule[tied]) == 0
    assert [round(100 * float(error)) for error in by_seed[:, worst]] == [13, 33, 37]
    more = group_means((results.even - risk)[:, None], results.families, results.groups)
    interval = bootstrap_intervals(
        more.values, more.families, seed=BOOTSTRAP_SEED, resamples=10_000
    )
    told = [float(part[0]) for part in (interval.estimate, interval.lower, interval.upper)]
    assert [f"{100 * value:.2f}" for value in told] == ["0.13", "-0.48", "1.03"]


# One training of one seed, in every sweep that it belongs to.
SHARED = [
    ("programs", "programs-boundary/boundary=0"),
    ("programs-boundary/boundary=26", "programs-rank/rank=4", "programs-weight/acts_on="),
    (
        *("programs-best", "programs-descent/inner_steps=2"),
        *("programs-rank-descent/rank=4", "programs-weight-descent/acts_on="),
    ),
]


@pytest.mark.parametrize("runs", SHARED, ids=lambda runs: runs[0])
def test_rows_that_are_one_training_are_one(runs):
    unit = training_name("adapted", 2026092811)
    assert len({Run(RESULTS / run).unit_file(unit, "slow.safetensors") for run in runs}) == 1


def test_shared_trainings_of_two_depths_are_one():
    for seed in Run(RESULTS / "programs").settings["seeds"]:
        unit = training_name("adapted", seed)
        runs = [Run(RESULTS / name) for name in ("programs", "programs-depth/boundary=0")]
        assert len({run.unit_file(unit, "slow.safetensors") for run in runs}) == 1


def kept(name):
    errors = {row["Objective"]: row["Real/keep"] for row in rows(f"choice/{name}", "controls")}
    return errors.get("Adapted", errors.get("Exact"))


def test_what_the_choice_says_in_words_is_so():
    fixed = kept("sgd-0.1")
    assert round(fixed) == 12
    assert {round(kept(f"sgd-{size}")) for size in ("0.3", "1.0")} == {8}
    sizes = ("learned-step-first", "learned-step", "exact")
    assert [f"{kept(name):.1f}" for name in sizes] == ["5.7", "1.4", "1.5"]
    assert max(kept("descent-2"), kept("exact-descent")) < 1
    larger = [kept(f"sizes-of-sgd/rule=sgd_{size}") for size in ("0.1", "0.3", "1.0")]
    assert larger == sorted(larger)
    steps = {n: kept(f"steps-of-sgd/inner_steps={n}") for n in (2, 4, 8, 16)}
    assert steps[4] > kept("descent-2") > steps[8]
    assert kept("steps-of-descent/inner_steps=8") < kept("descent-8")
    for hard in ("rank-16", "weight"):
        assert kept(hard) > 60
        assert kept(f"{hard}-descent") < 20
    assert kept("descent-2") < min(kept(f"rank-{rank}-descent") for rank in (1, 16))
    assert kept("descent-2") < kept("weight-descent")
    assert 1.8 < kept("layer-20") / fixed < 2.2
    assert f"{kept('sizes-of-sgd/rule=descent_0.3'):.1f}" == "2.7"
    assert kept("steps-of-layer-20/inner_steps=2") - steps[2] < 5
    assert abs(kept("descent-2-longer") - kept("descent-2")) < 1
    assert abs(kept("adapter-descent") - kept("descent-2")) < 1
    # What was chosen is the best with two steps, and of the best with more.
    lines = [line.split(" | ") for line in renewed(CHOICE).splitlines() if " × " in line]
    two = [" | ".join(cells) for cells in lines if cells[4].startswith("2 × ")]
    assert "2 × descent:1.0, exact gradient | 256 | 2 × descent:1.0 |" in two[-1]
    for trained in ("exact", "longer", "descent"):
        assert f"{kept(f'steps-of-{trained}/inner_steps=8'):.1f}" == "0.0"


CHOICE = "<!-- from results: choice choice -->\n<!-- end -->"


def test_a_changed_number_would_be_noticed():
    page = (ROOT / "docs/tour.md").read_text(encoding="utf-8")
    risk = next(r for r in rows("programs-best", "controls") if r["Objective"] == "Exact")
    changed = page.replace(f"{risk['Real/reset']:.2f}", "15.01")
    assert changed != page
    assert renewed(changed) == page
