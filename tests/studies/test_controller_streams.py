"""The controller study on runs of streams: it weighs what they answered, as labels arrived."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from larc.cli import main
from larc.evaluation import half_brier
from larc.io.parquet import from_parquet
from larc.runs.run import Run
from larc.runs.settings import Execution
from larc.stream.mixing.forecaster import Forecaster
from larc.stream.queue import Ask
from larc.studies.controller.stream_report import load_results
from larc.studies.controller.stream_units import groups_of
from larc.studies.controller.units import CONTROLLER
from larc.studies.registry import STUDIES
from larc.studies.replay import ordered
from larc.studies.running import run_study
from larc.studies.stream.questions import synthetic_stream
from larc.studies.streams.settings import PRESETS
from larc.studies.streams.split import data_sets
from larc.studies.streams.synthetic import synthetic_streams

SEED = 2026092811


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    """A run of one's own events, the last of which never get a label."""
    folder = tmp_path_factory.mktemp("events")
    items = synthetic_stream()
    with (folder / "events.jsonl").open("w") as file:
        for number, item in enumerate(items):
            row = {
                "name": item.name,
                "asked": item.asked,
                "prompt": item.question.prompt,
                "candidates": list(item.question.candidates),
                "stream": item.stream,
                "group": item.group,
            }
            if number < len(items) - 3:
                row |= {"arrives": item.arrives, "label": item.label}
            file.write(json.dumps(row) + "\n")
    out = folder / "run"
    command = ["study", "stream", "--preset", "smoke", "--seeds", f"{SEED},{SEED + 1}"]
    file = str(folder / "events.jsonl")
    assert main([*command, "--events", file, "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def streams(tmp_path_factory):
    """A run of private streams, whose labels come two questions late."""
    folder = tmp_path_factory.mktemp("streams")
    file = folder / "tickets.jsonl"
    with file.open("w") as lines:
        for stream, items in synthetic_streams().items():
            for number, item in enumerate(items):
                row = {"stream": stream, "item_id": item.name, "order": number, "text": item.text}
                row |= {"candidates": list(item.candidates), "label": item.label}
                lines.write(json.dumps(row) + "\n")
    small = replace(
        PRESETS["smoke"],
        data=(str(file),),
        seeds=(SEED,),
        objectives=("static",),
        scores=("prior",),
        costly_streams=0,
        delay="2",
    )
    run_study(STUDIES["streams"], small, folder / "run", Execution())
    return folder / "run", small


def study(source, out, *options):
    return main(["study", "controller", "--run", str(source), "--out", str(out), *options])


def rows(out, units):
    files = sorted(out.glob(f"units/{units}/predictions.parquet"))
    return [row for path in files for row in from_parquet(path.read_bytes(), str(path))]


def test_a_run_of_events_is_weighed_by_seed_and_stream(events, tmp_path, capsys):
    out = tmp_path / "controller"
    assert study(events, out) == 0
    assert main(["verify", str(out)]) == 0
    asked = {(r["seed"], r["stream"], r["name"]) for r in rows(events, "audit-*")}
    by_path = {}
    for row in rows(out, "mixed"):
        by_path.setdefault(row["path"], set()).add((row["seed"], row["stream"], row["name"]))
        assert sum(row["policy"]) == pytest.approx(1, abs=1e-6)  # means of float32 rows
    assert all(named == asked for named in by_path.values())
    assert {CONTROLLER, "plain mean", "no drift", "one rate", "without kept"} <= set(by_path)
    assert "contexts by job" not in by_path
    (one,) = load_results(Run(out))
    assert set(one.single) == {"RESET", "CARRY", "LATEST", "UNTRAINED", "PRIOR"}  # PERM is sham
    assert one.unlabelled == 3
    for told in one.told:
        if "regrets" in told:
            assert max(told["regrets"].values()) <= told["bound"]["total"]
    text = (out / "report.md").read_text()
    assert "3 questions have no label: they are in no score." in text
    assert "of the 5 it weighs" in text
    assert json.loads((out / "config.json").read_text())["settings"]["live"] is False
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert study(events, out) == 0  # finished already
    assert main(["report", str(out)]) == 0
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_a_run_of_private_streams_is_weighed_with_its_delays(streams, tmp_path):
    source, settings = streams
    out = tmp_path / "controller"
    assert study(source, out) == 0
    assert main(["verify", str(out)]) == 0
    (data,) = data_sets(settings)
    (one,) = load_results(Run(out))
    assert {"RESET", "KEEP", "LATEST", "WORDS", "READOUT"} <= set(one.single)
    assert not {"SHAM", "MIXTURE", "CONTROLLER", "KEEP FROZEN"} & set(one.single)
    # By hand: a forecaster of one stream, which learns a label two questions after it was asked.
    answered = {}
    for row in rows(source, "test-*"):
        if row["path"] in one.single:
            answered.setdefault((row["stream"], row["name"]), {})[row["path"]] = row["policy"]
    mixed = {
        (r["stream"], r["name"]): r["policy"] for r in rows(out, "mixed") if r["path"] == CONTROLLER
    }
    order = [path for members in groups_of(one.single).values() for path in members]
    losses = []
    for stream in data.test:
        forecaster, said = Forecaster(order), []
        for event in ordered(stream):
            if isinstance(event, Ask):
                (item,) = event.items
                given = answered[item.stream, item.name]
                forecast = forecaster.predict(item.name, {path: given[path] for path in order})
                assert mixed[item.stream, item.name] == list(forecast.probabilities)
                said.append((forecast.probabilities, item.label))
            else:
                forecaster.learn([(item.name, item.label) for item in event.items])
        losses.append(np.mean([half_brier([policy], [label]) for policy, label in said]))
    assert one.mean(CONTROLLER) == pytest.approx(np.mean(losses))


def test_other_questions_than_were_answered_and_other_runs_are_refused(
    streams, events, tmp_path, capsys
):
    source, settings = streams
    file = tmp_path / "tickets.jsonl"
    shutil.copy(settings.data[0], file)
    assert study(source, tmp_path / "moved", "--jobs", str(file)) == 0
    file.write_text(file.read_text().replace('"label": 0', '"label": 1'))
    capsys.readouterr()
    assert study(source, tmp_path / "other", "--jobs", str(file)) == 1
    assert "questions differ between the files and what" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()
    assert study(tmp_path / "moved", tmp_path / "out") == 1
    told = capsys.readouterr().err
    assert "is a run of 'controller'; give one of `larc study ci` or `larc study stream`" in told
    assert main(["study", "prefix", "--run", str(events), "--out", str(tmp_path / "p")]) == 1
    assert "give one of `larc study ci`." in capsys.readouterr().err
