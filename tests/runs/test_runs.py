import json

import pytest

from larc import LarcError
from larc.runs.run import Run


@pytest.fixture
def run(tmp_path):
    return Run.start(tmp_path / "run", "example", {"size": 1, "seeds": (1, 2)})


def test_a_run_goes_on_only_with_its_own_settings(run):
    assert Run.start(run.path, "example", {"size": 1, "seeds": (1, 2)}).settings["size"] == 1
    with pytest.raises(LarcError, match="size = 1, not 2"):
        Run.start(run.path, "example", {"size": 2, "seeds": (1, 2)})
    with pytest.raises(LarcError, match="more = None, not 3"):
        Run.start(run.path, "example", {"size": 1, "seeds": (1, 2), "more": 3})
    with pytest.raises(LarcError, match="is a run of 'example'"):
        Run.start(run.path, "another", {"size": 1, "seeds": (1, 2)})


def test_a_directory_with_something_else_in_it_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(LarcError, match="holds something else"):
        Run.start(tmp_path, "example", {})
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_in_the_way_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LarcError, match="could not be made"):
        Run.start(tmp_path / "file" / "run", "example", {})


@pytest.mark.parametrize("content", ["", "{", "[]", '{"kind": "x"}', "\x00"])
def test_a_damaged_config_is_one_sentence(run, content):
    (run.path / "config.json").write_text(content)
    with pytest.raises(LarcError, match=r"config\.json"):
        Run(run.path)


def test_a_newer_schema_is_refused(run):
    config = json.loads((run.path / "config.json").read_text())
    (run.path / "config.json").write_text(json.dumps({**config, "schema": 99}))
    with pytest.raises(LarcError, match="schema 99"):
        Run(run.path)


def test_a_unit_is_done_when_its_hashes_are_written_and_keeps_nothing_else(run):
    scratch = run.scratch("a")
    (scratch / "checkpoint.safetensors").write_bytes(b"half")
    assert not run.is_done("a")
    run.finish_unit("a", {"x": b"1", "y": b"2"})
    assert run.is_done("a")
    assert sorted(path.name for path in scratch.iterdir()) == ["done.json", "x", "y"]
    (scratch / "x").write_bytes(b"3")
    with pytest.raises(LarcError, match="was changed"):
        run.unit_file("a", "x")


def test_evidence_is_a_chain_in_which_an_event_happens_once(run):
    run.record("first", {"n": 1})
    run.record("second", {})
    before = (run.path / "evidence.jsonl").read_bytes()
    run.record("first", {"n": 2})
    assert (run.path / "evidence.jsonl").read_bytes() == before
    assert [entry["event"] for entry in run.evidence()] == ["first", "second"]
    for damaged in (before.replace(b'"n": 1', b'"n": 7'), before.splitlines(True)[1], b"x\n"):
        (run.path / "evidence.jsonl").write_bytes(damaged)
        with pytest.raises(LarcError, match="does not follow"):
            run.evidence()


def test_data_that_changed_since_the_start_is_refused(tmp_path):
    directory = tmp_path / "run"
    run = Run.start(directory, "example", {"size": 1}, data="a" * 64)
    assert (run.schema, run.data) == (2, "a" * 64)
    assert Run.start(directory, "example", {"size": 1}, data="a" * 64).data == run.data
    with pytest.raises(LarcError, match="other data, which has changed since"):
        Run.start(directory, "example", {"size": 1}, data="b" * 64)


def test_what_a_killed_process_left_is_tidied_and_nothing_else(run):
    left = [
        *(run.path / ".evidence.jsonl.123.part", run.path / "tables" / ".a.csv.123.part"),
        *(run.path / "units" / "a" / name for name in (".x.123.part", "checkpoint.safetensors")),
    ]
    (run.path / "tables").mkdir()
    (run.path / "tables" / "a.csv").write_bytes(b"")
    run.finish_unit("a", {"x": b"1"})
    kept = [run.scratch("b") / "session.safetensors", run.path / ".mine.part"]
    for path in (*left, *kept):
        path.write_bytes(b"half")
    with run.locked():
        assert not any(path.exists() for path in left)
        assert all(path.exists() for path in kept)
    assert not (run.path / "lock").exists()


def test_a_run_killed_while_its_config_was_written_starts_all_the_same(tmp_path):
    directory = tmp_path / "run"
    directory.mkdir()
    (directory / ".config.json.123.part").write_bytes(b'{"kind"')
    (directory / "lock").write_text("123\n")
    assert Run.start(directory, "example", {}).kind == "example"


def test_units_and_files_are_never_looked_for_elsewhere(run, tmp_path):
    (tmp_path / "secret").write_text("precious")
    run.finish_unit("a", {"x": b"1"})
    for unit, name in (("..", "config.json"), ("a", "../../../secret"), ("a/../..", "x")):
        with pytest.raises(LarcError, match="is no file of a unit"):
            run.unit_file(unit, name)
    (run.path / "units" / "a" / "done.json").write_text('{"../../../secret": ""}')
    with pytest.raises(LarcError, match="no record of a unit's files"):
        run.unit_hashes("a")


@pytest.mark.parametrize("text", ["\ud800", "\x00", "é"])
def test_any_text_of_a_config_is_read_or_refused(run, text):
    config = json.loads((run.path / "config.json").read_text())
    (run.path / "config.json").write_text(json.dumps({**config, "kind": text}))
    with pytest.raises(LarcError, match="was changed after it was written"):
        Run(run.path)
