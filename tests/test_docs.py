"""README and pages: their code runs, their numbers are those of the results, they need nobody."""

import itertools
import os
import re
import shutil
import subprocess
import sys
import tomllib
from contextlib import suppress

import numpy as np
import pytest
import yaml
from playwright.sync_api import TimeoutError as Late
from playwright.sync_api import sync_playwright

import larc
from larc.evaluation import bootstrap_intervals, group_means
from larc.reports.episodic import BOOTSTRAP_SEED, load_results
from larc.studies.runs import Run
from tests.browser import launch
from tests.pages import PAGES, ROOT, blocks, check, perform
from website.paper import PAPER
from website.picture import PICTURE, picture
from website.published import FIGURES, RESULTS, beside, pages, renewed, rows

PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}


def _named(page):
    return page.relative_to(ROOT).as_posix()


# Code -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=_named)
def test_every_block_of_code_is_one_that_is_tried(page):
    for block in blocks(page):
        if block.language == "console":
            shown = [line for line in block.text.splitlines() if not line.startswith("$ ")]
            assert not shown, f"only commands, each after a dollar sign: {shown}"
        elif block.language == "pycon":
            assert ">>> " in block.text
            assert "+SKIP" not in block.text
        elif block.language in ("python", "yaml", "json"):
            assert block.mark.startswith("file: "), f"who runs this? {block.text[:80]}"
        else:
            assert block.language in ("", "text"), block.language


@pytest.mark.parametrize("page", PAGES, ids=_named)
def test_commands_that_take_long_are_at_least_right(page, capsys):
    for block in blocks(page):
        if block.language == "console" and not block.mark:
            for command in block.commands:
                check(command)


@pytest.mark.parametrize("command", ["larc study tasks --rank four", "larc stduy", "make nothing"])
def test_a_command_that_is_wrong_would_be_noticed(command, capsys):
    with pytest.raises((AssertionError, larc.LarcError)):
        check(command)


RUN = [page for page in PAGES if any(block.mark == "run" for block in blocks(page))]


@pytest.mark.parametrize("page", RUN, ids=_named)
def test_marked_commands_do_what_the_page_says(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for block in blocks(page):
        if block.mark.startswith("file: "):
            (tmp_path / block.mark.removeprefix("file: ")).write_text(block.text, encoding="utf-8")
        for command in block.commands if block.mark == "run" else ():
            perform(command, monkeypatch)
    assert "Traceback" not in capsys.readouterr().err
    for made in tmp_path.glob("runs/*"):
        assert (made / "report.html").is_file()


def test_some_pages_run_commands():
    assert {"docs/tutorial.md", "docs/ci.md", "docs/runs.md"} <= set(map(_named, RUN))


# Numbers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", pages(), ids=_named)
def test_numbers_on_pages_are_those_of_the_results(page):
    text = page.read_text(encoding="utf-8")
    assert renewed(text) == text, "run `python -m website`"
    # Every opening comment was understood, and none is left without its end.
    assert text.count("<!-- from results: ") == text.count("<!-- end -->")


def test_the_picture_is_that_of_the_results():
    assert PICTURE.read_text(encoding="utf-8") == picture(), "run `python -m website`"


@pytest.mark.parametrize("shown", FIGURES, ids=_named)
def test_the_figures_on_pages_are_the_published_ones(shown):
    assert shown.read_bytes() == FIGURES[shown].read_bytes(), "run `python -m website`"


def test_readme_shows_the_headline():
    shown = (ROOT / "README.md").read_text(encoding="utf-8")
    risk = next(r for r in rows("programs-best", "controls") if r["Objective"] == "Exact")
    for cell in ("Real/reset", "Real/keep", "Sham/keep", "Rule"):
        assert f"{risk[cell]:.2f}" in shown


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
    assert len(beside(PAPER[table], ours).rows) == len(PAPER[table]) - 1 + len(ours)


def test_the_papers_gains_are_those_it_states():
    # Its text has these, from losses that were not rounded.
    stated = {
        "effects": {"G: reset minus keep, with memory": -0.0534, "D: permuted minus real": 0.1497},
        "prefix-effects": {"Smaller carried update": -0.0237, "History removed, a tenth": 0.0976},
    }
    for table, gains in stated.items():
        own = {row[0]: row[-2] for row in PAPER[table][1:]}
        for name, gain in gains.items():
            assert own[name] == pytest.approx(gain, abs=1.5e-4)


def published(table):
    """Rows of a table of the paper's, by their first cell."""
    names, *cells = PAPER[table]
    return {row[0]: dict(zip(names, row, strict=True)) for row in cells}


def report_of(run):
    return (RESULTS / run / "report.md").read_text(encoding="utf-8")


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
    theirs = published("prefix-effects")
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
    ranked = {place: sorted(mixed, key=lambda name: where[name][place]) for place in trusted}
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
    for own in (loss, late):
        assert own["PERM_M1"] > own["P1M1"] > own["HEDGE4"] > own["P0M1"]
        assert own["P1M0"] > own["P0M0"]
    assert all(loss[path] < late[path] for path in ("P0M0", "P0M1"))
    assert abs(loss["P0M0"] - loss["P0M1"]) < 0.001
    assert loss["P1M1"] < loss["P1M0"] - 0.03


def test_what_programs_say_in_words_is_so():
    end = {row["Objective"]: row for row in rows("programs", "endpoint")}
    risk = {row["Objective"]: row for row in rows("programs", "controls")}
    gain = {row["Contrast"]: row for row in rows("programs", "contrasts")}
    paper = published("endpoint")
    assert [round(end["Adapted"][name]) for name in ("Mean", *SEEDS)] == [24, 9, 34, 30]
    assert abs(end["Adapted"]["Mean"] - paper["Adapted"]["Mean"]) < 0.5
    assert abs(end["Adapted"]["Seed SD"] - paper["Adapted"]["Seed SD"]) < 3
    assert end["Static"]["Seed SD"] < paper["Static"]["Seed SD"] / 2
    theirs = published("contrasts")
    shown = ("Adapted G", "Static G", "Δobj")
    assert [round(theirs[name]["Mean"]) for name in shown] == [37, 25, 5]
    for objective, other in itertools.product(("Static", "Adapted"), ("G", "D")):
        contrast = gain[f"{objective} {other}"]
        assert contrast["Mean"] > 3
        assert min(contrast[seed] for seed in SEEDS) > 0
        assert float(contrast["99 % interval"].strip("[").split(",")[0]) > 0
    worse = [
        x["Adapted"]["Real/reset"] - x["Static"]["Real/reset"]
        for x in (risk, published("controls"))
    ]
    assert [round(points) for points in worse] == [4, 7]
    said = {name: row["Text"] - row["Real/reset"] for name, row in published("controls").items()}
    assert said["Static"] > 7
    assert abs(said["Adapted"]) < 0.3
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
    by_place = sorted(("0", "12", "20", "26"), key=lambda place: places[place, "adapted"]["Keep"])
    assert by_place[:2] == ["0", "26"]
    assert max(places[place, "static"]["G"] for place in by_place if place != "0") < 3
    assert max(places[place, "untrained"]["G"] for place in by_place) < 0.3
    assert min(end["Adapted"][seed] for seed in SEEDS[1:]) > 3 * end["Adapted"]["2811"]
    depth = {row["boundary"]: row for row in rows("programs-depth", "sweep")}
    assert [round(depth[place]["Keep"]) for place in ("0", "12", "20", "26")] == [24, 21, 17, 8]
    assert depth["26"]["ms"] < 0.27 * depth["0"]["ms"]
    beyond = {
        place: float(row["Its interval"].strip("[").split(",")[0]) > 0
        for place, row in depth.items()
        if row["Its interval"]
    }
    assert beyond == {"12": False, "20": True, "26": True}
    by_seed = {
        place: next(r for r in rows(f"programs-depth/boundary={place}", "endpoint"))
        for place in depth
    }
    assert all(by_seed["26"][seed] < by_seed["12"][seed] for seed in SEEDS)
    assert [by_seed["26"][seed] < by_seed["0"][seed] for seed in SEEDS] == [False, True, True]
    assert max(by_seed, key=lambda place: by_seed[place]["Seed SD"]) == "0"
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
    assert sorted(round(100 * float(results.even[place])) for place in tied) == [17, 20]
    assert results.even[worst] == 0.2
    (other,) = (int(place) for place in tied if place != worst)
    assert by_seed[:, other].max() < 5e-5
    assert max(results.rule[tied]) == 0
    assert [round(100 * float(error)) for error in by_seed[:, worst]] == [13, 33, 37]
    more = group_means((results.even - risk)[:, None], results.families, results.groups)
    found = bootstrap_intervals(more.values, more.families, seed=BOOTSTRAP_SEED, resamples=10_000)
    told = [float(part[0]) for part in (found.estimate, found.lower, found.upper)]
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
    file = "units/train-adapted-2026092811/slow.safetensors"
    assert len({(RESULTS / run / file).read_bytes() for run in runs}) == 1


def test_shared_trainings_of_two_depths_are_one():
    for seed in Run(RESULTS / "programs").settings["seeds"]:
        file = f"units/train-adapted-{seed}/slow.safetensors"
        runs = ("programs", "programs-depth/boundary=0")
        assert len({(RESULTS / run / file).read_bytes() for run in runs}) == 1


def kept(name):
    found = {row["Objective"]: row["Real/keep"] for row in rows(f"choice/{name}", "controls")}
    return found.get("Adapted", found.get("Exact"))


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
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    risk = next(r for r in rows("programs-best", "controls") if r["Objective"] == "Exact")
    changed = page.replace(f"{risk['Real/reset']:.2f}", "15.01")
    assert changed != page
    assert renewed(changed) == page


# The site ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    place = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(place)]
    built = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return place


def test_every_public_name_is_on_the_api_page(site):
    page = (site / "api.html").read_text(encoding="utf-8")
    for name in larc.__all__:
        module = getattr(larc, name).__module__
        assert f'id="larc.{name}"' in page or f'id="{module}.{name}"' in page, name


def test_formulas_are_drawn_and_none_is_left(site):
    page = (site / "mechanism.html").read_text(encoding="utf-8")
    assert page.count("<math") > 50
    assert "arithmatex" not in page
    assert "$$" not in page


def test_pages_name_no_other_host(site):
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r'(?:src|href)="(?:https?:)?//[^"]+\.(?:js|css|woff2?)', text), page


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        started = launch(playwright)
        if started is None:
            (pytest.fail if os.environ.get("CI") else pytest.skip)(
                "no Chromium starts here; run `python -m tests.browser` to bring one"
            )
        yield started
        started.close()


@pytest.fixture
def opened(browser):
    """Opens pages from the disk, and in the end refuses complaints and requests to anybody."""
    contexts, wrong = [], []

    def opening(place, **more):
        context = browser.new_context(**{"viewport": DESK, "color_scheme": "light", **more})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("request", lambda one: one.url.startswith("http") and wrong.append(one.url))
        page.goto(place.as_uri())
        return page

    yield opening
    for context in contexts:
        context.close()
    assert not wrong


@pytest.mark.parametrize("name", ["index", "tutorial", "mechanism", "results", "api"])
def test_pages_open_from_the_disk_and_fit_a_phone(opened, site, name):
    for viewport in (DESK, PHONE):
        page = opened(site / f"{name}.html", viewport=viewport)
        assert page.locator("h1").is_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]


def test_search_works_without_a_server(opened, site):
    page = opened(site / "index.html")
    found = page.locator(".md-search-result__link").first
    box = page.locator(".md-search__input")
    for patience in range(12):
        # The page listens to keys; what is typed before it does is not heard, and typed again.
        box.fill("")
        box.press_sequentially("gauge")
        with suppress(Late):
            found.wait_for(timeout=2_000 * (patience + 1))
            break
    assert "mechanism.html" in found.get_attribute("href")


def test_dark_is_followed(opened, site):
    def ground(scheme):
        page = opened(site / "index.html", color_scheme=scheme)
        return page.locator("body").evaluate("one => getComputedStyle(one).backgroundColor")

    assert ground("light") != ground("dark")


# What stands beside ------------------------------------------------------------------------------


def _project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_citation_is_of_this_software():
    told = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors", "type"} <= set(told)
    assert (told["version"], told["license"]) == (_project()["version"], _project()["license"])
    (paper,) = told["references"]
    assert [author["family-names"] for author in paper["authors"]] == ["Zou", "Donz"]


def test_the_changelog_knows_the_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "## [Unreleased]" in text or f"## [{_project()['version']}]" in text


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#\s]+)", text) + re.findall(r'src="([^"]+)"', text)
    for target in targets:
        assert target.startswith("https://") or (ROOT / target).exists(), target


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_alone_says_what_there_is():
    said = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ("run", "test", "docs"):
        assert re.search(rf"^make {target} ", said, re.MULTILINE), said
