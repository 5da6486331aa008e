"""The study of private conventions on made-up streams, with the tiny model."""

import csv
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from larc.cli import main
from larc.errors import LarcError
from larc.evaluation import half_brier
from larc.io.parquet import from_parquet
from larc.rules import parse_rule
from larc.runs.run import Run
from larc.runs.settings import Execution
from larc.state import SlowState
from larc.studies.registry import STUDIES
from larc.studies.running import run_study
from larc.studies.streams.choosing import parse_choice
from larc.studies.streams.names import (
    CONTROLLER,
    CONTROLLER_ALL,
    EXPERTS,
    KEEP,
    MIXTURE,
    MODEL_FREE,
    RESET,
    WORDS_ON_KEEP,
    WORDS_ON_RESET,
)
from larc.studies.streams.results import NO_SEED, contrast_of
from larc.studies.streams.settings import PRESETS
from larc.studies.streams.split import data_sets
from larc.studies.streams.synthetic import synthetic_streams
from larc.studies.streams.ways import LEARNED, training_name
from website.conventions import overview

SEED = 2026092811
SMALL = replace(
    PRESETS["smoke"], seeds=(SEED,), objectives=("static", "first-order"), scores=("prior",)
)


def carried_out(out, **changed):
    return run_study(STUDIES["streams"], replace(SMALL, **changed), out, Execution())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that first stopped when its choice was on record."""
    out = tmp_path_factory.mktemp("runs") / "streams"
    with pytest.raises(LarcError, match="no test stream was opened"):
        carried_out(out, trials_only=True)
    assert not [unit for unit in Run(out).units() if unit.startswith(("test-", "cost-"))]
    assert [event["event"] for event in Run(out).evidence()][-1] == "choice made"
    carried_out(out)
    assert main(["report", str(out)]) == 0
    return out


def rows(out):
    paths = sorted(out.glob("units/test-*/predictions.parquet"))
    return [row for path in paths for row in from_parquet(path.read_bytes(), "p")]


def found(out):
    """Everything a run found, without what it cost."""
    kept = ("slow.safetensors", "predictions.parquet", "choice.json", "weigh.json")
    files = [path for name in kept for path in out.glob(f"units/*/{name}")]
    files += [*out.glob("units/*/fitted-*"), out / "config.json", out / "evidence.jsonl"]
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(files)}


def test_steps_that_were_learned_with_a_start_are_tried_with_it(run):
    start = training_name("synthetic", "prior", "first-order", SEED)
    slow = SlowState.from_bytes(Run(run).unit_file(start, "slow.safetensors"))
    assert slow.rule.startswith("sgd:step_size=")
    tried = {
        rule: Run(run).unit_hashes(f"try-synthetic-first-order-prior-keep-{rule}-{SEED}-00")
        for rule in ("learned", "sgd-0.5")
    }
    assert tried["learned"]["predictions.parquet"] != tried["sgd-0.5"]["predictions.parquet"]
    # A start whose steps were not learned has no such rule.
    assert not any("static-prior-keep-learned" in unit for unit in Run(run).units())


def test_everybody_answers_every_question_and_all_of_it_is_called_synthetic(run):
    answers = rows(run)
    (data,) = data_sets(SMALL)
    asked = {(item.stream, item.name) for stream in data.test for item in stream}
    by_path = {}
    for row in answers:
        assert sum(row["policy"]) == pytest.approx(1, abs=1e-9)
        by_path.setdefault(row["path"], set()).add((row["stream"], row["name"]))
    whole = {path for path, said in by_path.items() if said == asked}
    assert whole >= {RESET, KEEP, "LATEST", "SHAM", "CASES KEEP", *EXPERTS}
    assert whole >= {WORDS_ON_RESET, WORDS_ON_KEEP, MIXTURE, CONTROLLER, CONTROLLER_ALL}
    assert len(by_path["LORA"]) == len(data.test[0])
    half = sum(len(stream) - len(stream) // 2 for stream in data.test)
    assert {len(by_path[f"{KEEP} {lane}"]) for lane in ("FROZEN", "AGAIN")} == {half}
    assert {row["data"] for row in answers} == {"synthetic"}
    report = (run / "report.md").read_text()
    assert "# Private conventions (synthetic streams)" in report
    assert "The streams are made up" in report
    assert 'id="figure-labels-seen"' in (run / "report.html").read_text()
    assert main(["verify", str(run)]) == 0


def test_the_choice_is_on_record_before_a_test_stream_is_opened(run):
    events = [event["event"] for event in Run(run).evidence()]
    assert events == [
        *("data read", "trials trained", "trials written", "choice made"),
        *("training finished", "predictions written"),
    ]
    choice = json.loads((run / "units/choice-synthetic/choice.json").read_text())
    tried = {name: loss for name, loss in choice["tried"].items() if "-keep-" in name}
    kept = [name for name in tried if not name.endswith("-cases")]
    best = min(kept, key=tried.__getitem__)
    assert best.removesuffix("-cases") in choice["chosen"] or f"{best}-cases" in choice["chosen"]


def test_a_choice_is_not_made_anew_over_test_streams_that_are_open(run, tmp_path):
    again = tmp_path / "again"
    shutil.copytree(run, again)
    (again / "manifest.json").unlink()
    evidence = (again / "evidence.jsonl").read_bytes().splitlines(keepends=True)
    (again / "evidence.jsonl").write_bytes(b"".join(evidence[:3]))
    for unit in again.glob("units/*"):
        if unit.name.startswith(("choice-", "weigh-")):
            shutil.rmtree(unit)
    with pytest.raises(LarcError, match="'choice made', which comes before 'predictions written'"):
        carried_out(again)


def test_what_is_asked_about_has_every_seed_and_other_ways_the_first(tmp_path):
    out, seeds = tmp_path / "two", (SEED, SEED + 1)
    carried_out(out, seeds=seeds, objectives=("static",), costly_streams=0)
    by_path = {}
    for row in rows(out):
        by_path.setdefault(row["path"], set()).add(row["seed"])
    for path in (KEEP, "LATEST", "SHAM", CONTROLLER, MIXTURE, WORDS_ON_KEEP):
        assert by_path[path] == set(seeds), path
    for path in ("CASES KEEP", CONTROLLER_ALL):
        assert by_path[path] == {SEED}, path
    # Fitted and played without chance: once for all.
    assert by_path[EXPERTS[0]] == {NO_SEED}
    choice = json.loads((out / "units/choice-synthetic/choice.json").read_text())
    starts = {(start, SEED) for start in ("static", "untrained")}
    starts |= {(start, SEED + 1) for start in ("static", choice["way"]["start"])}
    trained = {unit for unit in Run(out).units() if unit.startswith("train-")}
    assert trained == {training_name("synthetic", "prior", *start) for start in starts}
    # Whatever was chosen, also the model as it is, can be applied with every seed.
    carried_out(tmp_path / "applied", start=str(out), seeds=seeds, test_streams=1)
    assert {r["seed"] for r in rows(tmp_path / "applied") if r["path"] == KEEP} == set(seeds)
    assert main(["report", str(out)]) == 0
    assert "CONTROLLER OF ALL minus KEEP" in (out / "report.md").read_text()


def test_a_run_that_stopped_finds_the_same_as_one_that_did_not(run, tmp_path):
    carried_out(tmp_path / "whole")
    assert found(tmp_path / "whole") == found(run)


def test_validation_streams_alone_decide_the_choice(run, tmp_path):
    """Other labels in test streams change no trial, no choice and no training."""
    (data,) = data_sets(SMALL)
    tested = {stream[0].stream for stream in data.test}
    items = [item for some in synthetic_streams().values() for item in some]
    for changed, file in ((False, "one"), (True, "other")):
        (tmp_path / file).mkdir()
        path = tmp_path / file / "made.jsonl"
        write(
            path, items, lambda item, by=changed: (item.label + (by and item.stream in tested)) % 3
        )
        with pytest.raises(LarcError, match="no test stream was opened"):
            carried_out(
                tmp_path / f"run-{file}", data=(str(path),), trials_only=True, costly_streams=0
            )
    one, other = (found(tmp_path / f"run-{file}") for file in ("one", "other"))
    for name in one:
        if name not in ("config.json",):
            assert one[name] == other[name], name


def test_each_file_is_a_data_set_of_its_own(tmp_path):
    for number, name in enumerate(("north", "south")):
        made = synthetic_streams(streams=6, questions=8, seed=number)
        write(tmp_path / f"{name}.jsonl", [item for items in made.values() for item in items])
    files = tuple(str(tmp_path / f"{name}.jsonl") for name in ("north", "south"))
    small = {"objectives": ("static",), "rules": ("sgd:1.0",), "costly_streams": 0, "updates": 2}
    carried_out(tmp_path / "run", data=files, test_streams=2, **small)
    assert main(["report", str(tmp_path / "run")]) == 0
    assert {line[0] for line in table(tmp_path / "run", "scores")} == {"north", "south"}
    assert {line[0] for line in table(tmp_path / "run", "choices")} == {"north", "south"}
    command = ["package", str(tmp_path / "run"), "--out", str(tmp_path / "package")]
    assert main(command) == 1  # whose states?
    start = json.loads((tmp_path / "run/units/choice-north/choice.json").read_text())["way"]
    named = f"north-{start['score']}-{start['start']}"
    assert main([*command, "--objective", named]) == 0


def write(path, items, label=lambda item: item.label, stream=lambda item: item.stream):
    lines = [
        {
            "stream": stream(item),
            "item_id": item.name,
            "order": item.order,
            "text": item.text,
            "candidates": list(item.candidates),
            "label": label(item),
        }
        for item in items
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def table(run, name):
    with (run / "tables" / f"{name}.csv").open(newline="") as file:
        return list(csv.reader(file))[1:]


def test_the_scores_are_those_of_the_saved_predictions(run):
    by_stream = {}
    for row in rows(run):
        if row["path"] == KEEP:
            wrong = [p - (n == row["label"]) for n, p in enumerate(row["policy"])]
            loss = sum(w * w for w in wrong) / 2
            by_stream.setdefault(row["stream"], []).append((row["number"], loss))
    means = [sum(loss for _, loss in some) / len(some) for some in by_stream.values()]
    firsts = [
        sum(loss for number, loss in some if number < SMALL.first) / SMALL.first
        for some in by_stream.values()
    ]
    line = next(line for line in table(run, "scores") if line[1] == KEEP)
    assert float(line[3]) == pytest.approx(sum(means) / len(means), abs=1e-6)
    assert float(line[5]) == pytest.approx(sum(firsts) / len(firsts), abs=1e-6)
    costs = {line[1]: line for line in table(run, "costs")}
    assert float(costs[RESET][3]) == 0
    assert 0 < float(costs[KEEP][3]) < float(costs[KEEP][2])
    assert float(costs["WORDS"][2]) == 0
    assert float(costs["READOUT"][2]) > 0


def test_labels_seen_are_those_that_had_arrived(run):
    for row in rows(run):
        assert row["seen"] == row["number"]  # labels come at once


@pytest.fixture(scope="module")
def package(run, tmp_path_factory):
    out = tmp_path_factory.mktemp("packages") / "package"
    assert main(["package", str(run), "--out", str(out)]) == 0
    return out


def test_a_card_names_the_rule_that_was_chosen(run, package):
    choice = parse_choice(json.loads((run / "units/choice-synthetic/choice.json").read_text()))
    slow = SlowState.from_pretrained(package, seed=SEED)
    used = f"rule=larc.{parse_rule(choice.way.rule_with(slow.rule))!r})"
    assert (used in (package / "README.md").read_text()) == (choice.way.rule != LEARNED)


@pytest.mark.parametrize("source", ["package", "run"])
def test_a_start_is_applied_to_new_streams_without_training(
    request, run, package, tmp_path, source
):
    start = {"package": package, "run": run}[source]
    made = synthetic_streams(streams=3, questions=10, seed=5)
    path = tmp_path / "new.jsonl"
    items = [item for some in made.values() for item in some]
    write(path, items, stream=lambda item: item.stream.replace("site", "place"))
    out = tmp_path / "applied"
    options = ["--preset", "smoke", "--data", str(path), "--start", str(start)]
    assert main(["study", "streams", *options, "--out", str(out)]) == 0
    applied = Run(out)
    assert applied.settings["seeds"] == [SEED]
    answered = {row["stream"] for row in rows(out) if row["path"] == KEEP}
    assert answered == {f"synthetic-place-{number:02}" for number in range(3)}
    choice = json.loads((run / "units/choice-synthetic/choice.json").read_text())
    way = choice["way"]
    name = f"{way['score']}-{way['start']}-{SEED}"
    assert applied.unit_file(f"train-new-{name}", "slow.safetensors") == Run(run).unit_file(
        f"train-synthetic-{name}", "slow.safetensors"
    )
    fitted = {row["operation"] for u in applied.units() for row in ledger(applied, u)}
    assert "fit" not in fitted
    # All but adapters and other starts; the model as it is needs no package.
    paths = {row["path"] for row in rows(run)} - {"LORA"}
    expected = {path for path in paths if not path.endswith(("first-order prior", "static prior"))}
    assert expected <= {row["path"] for row in rows(out)}
    assert main(["verify", str(out)]) == 0


def test_a_start_is_never_tested_on_streams_it_was_made_with(run, tmp_path):
    made = carried_out(tmp_path / "again", start=str(run), test_streams=0)
    used = Run(run).evidence()[0]["parts"]["synthetic"]
    tested = {row["stream"] for row in rows(tmp_path / "again")}
    assert tested == set(used["test"])
    assert made.is_closed
    named = tuple(name for names in used.values() for name in names)
    with pytest.raises(LarcError, match="give streams that are new"):
        carried_out(tmp_path / "none", start=str(run), looked_at=named)


def ledger(run, unit):
    return run.unit_json(unit, "ledger.json") if run.unit_has(unit, "ledger.json") else []


def test_a_start_of_another_study_is_refused(smoke, tmp_path):
    options = ["--preset", "smoke", "--start", str(smoke), "--out", str(tmp_path / "out")]
    assert main(["study", "streams", *options]) == 1
    assert not (tmp_path / "out").exists()


def test_questions_without_a_label_are_asked_teach_nothing_and_are_in_no_score(tmp_path):
    """Half of every stream has none: all are answered, and scores are of the others alone."""
    file = tmp_path / "halves.jsonl"
    with file.open("w") as lines:
        for stream, items in synthetic_streams().items():
            for number, item in enumerate(items):
                row = {"stream": stream, "item_id": item.name, "order": number, "text": item.text}
                row |= {"candidates": list(item.candidates)}
                lines.write(json.dumps(row | ({} if number % 2 else {"label": item.label})) + "\n")
    out = tmp_path / "run"
    carried_out(out, data=(str(file),), objectives=("static",), costly_streams=0)
    assert main(["report", str(out)]) == 0
    assert main(["verify", str(out)]) == 0
    (data,) = data_sets(replace(SMALL, data=(str(file),)))
    assert all(item.label is not None for stream in data.training for item in stream)
    kept = [row for row in rows(out) if row["path"] == KEEP]
    assert len(kept) == data.counts["test"]["used_questions"]
    assert sum(row["label"] is None for row in kept) == data.counts["test"]["unlabelled"] > 0
    assert [row["seen"] for row in kept if row["number"] == 5] == [3] * len(data.test)
    losses = {}
    for row in kept:
        if row["label"] is not None:
            [loss] = half_brier([row["policy"]], [row["label"]])
            losses.setdefault(row["stream"], []).append(loss)
    [score] = [row[3] for row in table(out, "scores") if row[1] == KEEP]
    assert float(score) == pytest.approx(np.mean([np.mean(v) for v in losses.values()]), abs=6e-5)
    [counted] = [row for row in table(out, "data") if row[1] == "test"]
    assert counted[-1] == str(data.counts["test"]["unlabelled"])


def test_ways_to_score_candidates_are_compared_in_the_report(tmp_path):
    """Each has a start trained by it; what was not chosen is tested beside what was."""
    out = tmp_path / "run"
    scores = ("prior", "mean", "sum")
    carried_out(out, scores=scores, objectives=("static",), costly_streams=0, rules=("sgd:0.5",))
    assert main(["report", str(out)]) == 0
    for score in scores:
        unit = out / "units" / training_name("synthetic", score, "static", SEED)
        slow = SlowState.from_bytes((unit / "slow.safetensors").read_bytes(), unit.name)
        assert slow.normalise == score
    choice = json.loads((out / "units/choice-synthetic/choice.json").read_text())
    others = [score for score in scores if score != choice["way"]["score"]]
    shown = {row[1]: float(row[3]) for row in table(out, "scores")}
    against = {row[1] for row in table(out, "against-keep")}
    tried = {row[1] for row in table(out, "choices")}
    if choice["way"]["start"] != "static":
        others = [*others, choice["way"]["score"]]
    for score in others:
        assert {f"KEEP static {score}", f"RESET static {score}"} <= set(shown)
        assert f"KEEP static {score} minus KEEP" in against
    assert all(any(f"static-{score}-" in name for name in tried) for score in scores)
    assert len({shown[f"RESET static {score}"] for score in others}) == len(others)


def test_the_overview_of_a_page_has_what_the_report_has(run):
    shown = overview([run], 4)
    columns, _, row = (
        [cell.strip() for cell in line.split("|")] for line in shown.splitlines()[:3]
    )
    told = dict(zip(columns, row, strict=True))
    scores = {line[1]: line for line in table(run, "scores")}
    for column, path in (("Reset", RESET), ("Kept", KEEP), ("Controller", CONTROLLER)):
        assert float(told[column]) == pytest.approx(float(scores[path][5]), abs=1e-4)
    best = min(MODEL_FREE, key=lambda path: float(scores[path][5]))
    assert best in told["Best without a model"]
    assert told["Kept over reset"].endswith("none: fewer than 4 streams")


def test_fewer_than_four_streams_give_no_interval_and_the_sentence_says_so(run):
    """There are three test streams; LoRA has one."""
    text = (run / "report.md").read_text()
    assert "99 % interval none: fewer than 4 streams" in text
    assert "nan" not in text
    assert {row[4] for row in table(run, "effects")} == {"none: fewer than 4 streams"}
    four = contrast_of(np.array([[0.1, 0.2, 0.3, 0.4], [0.3, 0.2, 0.3, 0.4]]))
    expected = stats.ttest_1samp([0.2, 0.2, 0.3, 0.4], 0).confidence_interval(0.99)
    assert (four.lower, four.upper) == pytest.approx((expected.low, expected.high))
    assert contrast_of(np.array([[0.2, 0.25, 0.3, 0.3]])).above_zero
    assert not contrast_of(np.array([[0.1, 0.2, 0.3]])).above_zero
