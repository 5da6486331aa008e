"""The stream study on a synthetic stream and on files, with the tiny model."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from larc.cli import main
from larc.errors import LarcError
from larc.evaluation import half_brier
from larc.io.parquet import from_parquet
from larc.learner import Learner
from larc.runs import units
from larc.runs.run import Run
from larc.runs.settings import Execution
from larc.state import SlowState
from larc.stream.experts import PRIOR
from larc.stream.session import Session, SessionFull
from larc.studies.registry import STUDIES
from larc.studies.running import run_study
from larc.studies.stream.questions import divide, synthetic_stream
from larc.studies.stream.settings import PRESETS
from larc.studies.stream.units import STRATEGIES
from larc.training.labels import LabelTrainer

SEED = 2026092811
# Before a layer, so that a run that goes on has lost the activations kept below it.
SMALL = ["--preset", "smoke", "--seeds", str(SEED), "--boundary", "2"]


def study(out, *options):
    return main(["study", "stream", *SMALL, "--out", str(out), *options])


def replay(out, **changed):
    """The same study, without its report."""
    small = {"seeds": (SEED,), "boundary": 2, **changed}
    return run_study(STUDIES["stream"], replace(PRESETS["smoke"], **small), out, Execution())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "stream"
    assert study(out) == 0
    return out


def results(out):
    """Everything a run found, without what it cost."""
    kept = ("slow.safetensors", "curve.json", "predictions.parquet", "updates.parquet")
    files = [path for name in kept for path in sorted(out.glob(f"units/*/{name}"))]
    files += [out / "config.json", out / "evidence.jsonl"]
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


def rows(out):
    paths = sorted(out.glob("units/audit-*/predictions.parquet"))
    return [row for path in paths for row in from_parquet(path.read_bytes(), "p")]


def own_stream(count=14):
    """A stream of one's own: three questions at a time, labels then and in between."""
    return [
        {
            "name": f"q{number:02}",
            "asked": number // 3,
            "arrives": number // 3 + 0.5 * (1 + number % 3),
            "prompt": f"Is {number} even? ",
            "candidates": ["yes", "no", "perhaps"][: 2 + number % 2],
            "label": number % 2,
        }
        for number in range(count)
    ]


def write(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return {"events": str(path), "train": 7}


def test_every_path_answers_every_question_and_all_of_it_is_called_synthetic(run):
    answers = rows(run)
    names = {row["name"] for row in answers}
    assert names == {item.name for item in divide(synthetic_stream(), 16).audit}
    assert {row["path"] for row in answers} == {PRIOR, *(path.name for path in STRATEGIES)}
    assert len(answers) == len(names) * (1 + len(STRATEGIES))
    assert all(sum(row["policy"]) == pytest.approx(1, abs=1e-5) for row in answers)  # float32
    assert {len(row["policy"]) for row in answers} == {2, 3}
    assert all("synthetic" in row["stream"] for row in answers)
    report = (run / "report.md").read_text()
    assert "# The stream study (synthetic questions)" in report
    assert "On a synthetic stream" in report
    assert main(["verify", str(run)]) == 0


def test_the_report_is_made_again_from_what_was_saved(run):
    def shown():
        return {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}

    before = shown()
    assert main(["report", str(run)]) == 0
    assert shown() == before
    assert study(run) == 0  # it is finished already
    assert shown() == before
    tables = {path.stem for path in run.glob("tables/*.csv")}
    assert tables >= {"replay", "effects", "weightings", "accuracy", "calibration", "streams"}
    assert 'id="figure-reliability"' in (run / "report.html").read_text()


def table(run, name):
    with (run / "tables" / f"{name}.csv").open(newline="") as file:
        return list(csv.reader(file))[1:]


def test_the_scores_are_those_of_the_saved_predictions(run):
    weighted = {}
    for path in ("RESET", "CARRY"):
        streams = {}
        for row in rows(run):
            if row["path"] == path:
                [loss] = half_brier([row["policy"]], [row["label"]])
                streams.setdefault(row["stream"], {}).setdefault(row["group"], []).append(loss)
        groups = [np.mean(losses) for stream in streams.values() for losses in stream.values()]
        flat = [
            loss for stream in streams.values() for losses in stream.values() for loss in losses
        ]
        weighted["Stream, group, item", path] = np.mean(
            [
                np.mean([np.mean(losses) for losses in stream.values()])
                for stream in streams.values()
            ]
        )
        weighted["Group, item", path] = np.mean(groups)
        weighted["Item", path] = np.mean(flat)
    assert len(set(weighted.values())) == 6
    shown = {(line[0], line[1]): float(line[2]) for line in table(run, "weightings")}
    for key, expected in weighted.items():
        assert shown[key] == pytest.approx(expected, abs=1e-6)  # written with six decimals
    replay = {line[0]: float(line[1]) for line in table(run, "replay")}
    assert replay["CARRY"] == shown["Stream, group, item", "CARRY"]
    effects = {line[0]: float(line[1]) for line in table(run, "effects")}
    expected = replay["RESET"] - replay["CARRY"]
    assert effects["G: RESET minus CARRY"] == pytest.approx(expected, abs=2e-6)


def test_the_prior_counts_the_labels_that_had_arrived_in_its_stream(run):
    parts = divide(synthetic_stream(), 16)
    items = {item.name: item for item in (*parts.training, *parts.late, *parts.audit)}
    answers = [row for row in rows(run) if row["path"] == PRIOR]
    for row in answers:
        current = items[row["name"]]
        known = [
            other.question.candidates[other.label]
            for other in items.values()
            if other.stream == current.stream and other.arrives < current.asked
        ]
        counts = np.array([1 + known.count(text) for text in current.question.candidates])
        assert row["policy"] == (counts / counts.sum()).tolist()
    assert len({tuple(row["policy"]) for row in answers}) > 5


def test_the_starts_are_what_their_names_say(run, tiny):
    settings = PRESETS["smoke"]
    slow = Run(run).unit_file(f"fit-{SEED}", "slow.safetensors")
    trained = SlowState.from_bytes(slow, "slow")
    untrained = SlowState.initial(tiny, rank=settings.rank, seed=SEED, boundary=2)
    assert trained.version > 0
    parts = divide(synthetic_stream(), 16)
    items = {item.name: item for item in parts.audit}
    arrivals = {}
    for item in (*parts.late, *parts.audit):
        arrivals.setdefault(item.stream, []).append(item.arrives)
    checked = []
    for row in rows(run):
        # Before any label of its stream arrives, every path answers as its start does.
        if row["path"] == PRIOR or not (
            row["path"] == "RESET" or row["asked"] <= min(arrivals[row["stream"]])
        ):
            continue
        start = untrained if row["path"] == "UNTRAINED" else trained
        item = items[row["name"]]
        read = Learner(tiny, start).begin().read(item.question.prompt, item.question.candidates)
        assert row["policy"] == pytest.approx(read.tolist(), abs=1e-6)  # other batch, float32
        checked.append(row["path"])
    assert set(checked) == {path.name for path in STRATEGIES}


def raise_at(monkeypatch, owner, name, at):
    """Stop at one call of a method, in the middle of a unit."""
    method, calls = getattr(owner, name), []

    def stopped(*arguments):
        calls.append(1)
        if len(calls) == at:
            raise KeyboardInterrupt
        return method(*arguments)

    monkeypatch.setattr(owner, name, stopped)


@pytest.mark.parametrize(
    ("owner", "name", "at"),
    [(LabelTrainer, "advance", 2), (Session, "learn", 3), (Session, "ask", 12)],
)
def test_a_stopped_run_goes_on_to_the_same_bytes(run, tmp_path, monkeypatch, owner, name, at):
    monkeypatch.setattr(units, "CHECKPOINT_EVERY", 1)
    raise_at(monkeypatch, owner, name, at)
    out = tmp_path / "stopped"
    with pytest.raises(KeyboardInterrupt):
        replay(out)
    left = [path for path in out.glob("units/*") if not (path / "done.json").exists()]
    assert [path.name for unit in left for path in unit.iterdir()] == [
        "checkpoint.safetensors" if owner is LabelTrainer else "session.safetensors"
    ]
    replay(out)
    assert results(out) == results(run)


def test_a_full_session_stops_with_everything_saved_and_a_larger_limit_goes_on(run, tmp_path):
    out = tmp_path / "full"
    with pytest.raises(SessionFull, match="pending limit of 400"):
        replay(out, pending_limit=400)
    assert list(out.glob("units/audit-*/session.safetensors"))
    replay(out)
    assert results(out) == results(run)


@pytest.fixture(scope="module")
def replayed(tmp_path_factory):
    directory = tmp_path_factory.mktemp("own")
    replay(directory / "run", **write(directory / "events.jsonl", own_stream()))
    return directory / "run"


@pytest.mark.parametrize("by", [2, 3])
def test_labels_that_had_not_arrived_change_nothing_before_they_do(replayed, tmp_path, by):
    lines = [
        # At one time questions come first, so a label that arrives just then is too late.
        {**line, "label": 1 - line["label"]} if line["arrives"] >= by else line
        for line in own_stream()
    ]
    out = tmp_path / "run"
    replay(out, **write(tmp_path / "events.jsonl", lines))
    fit = f"units/fit-{SEED}/slow.safetensors"
    assert (out / fit).read_bytes() == (replayed / fit).read_bytes()
    differs = set()
    for mine, other in zip(rows(out), rows(replayed), strict=True):
        assert (mine["name"], mine["path"]) == (other["name"], other["path"])
        if mine["asked"] <= by:
            assert mine["policy"] == other["policy"]
        elif mine["policy"] != other["policy"]:
            differs.add(mine["path"])
    assert differs == {"CARRY", "LATEST", "PERM", "UNTRAINED", "PRIOR"}


def test_a_stream_that_changed_is_not_gone_on_with(replayed):
    events = replayed.parent / "events.jsonl"
    lines = own_stream()
    lines[-1]["label"] = 0
    try:
        with pytest.raises(LarcError, match="was started on other data"):
            replay(replayed, **write(events, lines))
    finally:
        write(events, own_stream())
    replay(replayed, **write(events, own_stream()))


def test_what_cannot_be_asked_is_named_before_any_training(tmp_path):
    lines = own_stream()
    lines[-1]["prompt"] *= 100
    out = tmp_path / "run"
    with pytest.raises(LarcError, match=r"1 question cannot be asked.*'q13' of 'stream': the pro"):
        replay(out, **write(tmp_path / "events.jsonl", lines))
    assert not out.exists()
    with pytest.raises(LarcError, match="rule"):
        replay(tmp_path / "rule", rule="sgd:no")
    assert not (tmp_path / "rule").exists()


def test_labels_that_never_arrive_leave_every_path_at_its_start(tmp_path):
    lines = own_stream()
    for line in lines[4:]:
        line["arrives"] = None
    given = write(tmp_path / "events.jsonl", lines)
    out = tmp_path / "run"
    assert study(out, "--events", given["events"], "--train", "7") == 0
    answers = {(row["name"], row["path"]): row["policy"] for row in rows(out)}
    for name, path in answers:
        if path == "CARRY":
            # The paths are read in one batch, a row each.
            assert answers[name, path] == pytest.approx(answers[name, "RESET"], abs=1e-6)
    assert table(out, "updates") == []
    assert "synthetic" not in (out / "report.md").read_text()
    assert main(["verify", str(out)]) == 0


def test_questions_without_a_label_are_asked_teach_nothing_and_are_in_no_score(tmp_path):
    """The same scores as with those questions gone, and the report says how many there are."""
    lines = own_stream()
    extra = {key: lines[-2][key] for key in ("asked", "prompt", "candidates")}
    file = write(tmp_path / "own.jsonl", [*lines, {**extra, "name": "nobody knows"}])
    whole, less = tmp_path / "whole", tmp_path / "less"
    replay(whole, **file)
    assert main(["report", str(whole)]) == 0
    asked = [row for row in rows(whole) if row["label"] is None]
    assert {row["name"] for row in asked} == {"nobody knows"}
    assert {row["path"] for row in asked} == {PRIOR, *(path.name for path in STRATEGIES)}
    counted = dict(table(whole, "questions"))
    assert counted["Predicted and in no score: no label will come"] == "1"
    replay(less, **write(tmp_path / "less.jsonl", lines))
    assert main(["report", str(less)]) == 0
    assert table(whole, "replay") == table(less, "replay")
    assert table(whole, "accuracy") == table(less, "accuracy")
