"""Reading anybody's own stream, and dividing it so that no training sees a label too early."""

import gzip
import json
import subprocess
import sys
from dataclasses import replace

import pytest

from larc.cli import main
from larc.errors import LarcError
from larc.stream.question import Question, Recorded
from larc.studies.stream.events import read_events
from larc.studies.stream.questions import divide, synthetic_stream

GOOD = {"asked": 0, "arrives": 9, "prompt": "Up? ", "candidates": ["yes", "no"], "label": 1}


def write(path, rows):
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in rows) + "\n")
    return path


def without(field):
    return {name: value for name, value in GOOD.items() if name != field}


def item(name, asked, arrives, group=None, stream="s"):
    question = Question(name, ("yes", "no"), "Up? ")
    return Recorded(question, asked, arrives, 0, stream, group or name)


def test_defaults_and_every_form_of_a_label(tmp_path):
    rows = [GOOD, "", {**GOOD, "label": "yes", "arrives": None}]
    rows.append({**GOOD, "name": "n", "stream": "s", "group": "g"})
    first, second, third = read_events(write(tmp_path / "events.jsonl", rows))
    assert (first.name, first.group, first.stream) == ("1", "1", "stream")
    assert (first.asked, first.arrives, first.label) == (0.0, 9.0, 1)
    assert (second.name, second.label, second.arrives) == ("3", 0, None)
    assert (third.name, third.group, third.stream) == ("n", "g", "s")


def test_a_line_may_have_no_label_where_none_will_come(tmp_path):
    unlabelled = {"asked": 0, "prompt": "Up? ", "candidates": ["yes", "no"]}
    rows = [unlabelled, {**unlabelled, "label": None, "arrives": None}, GOOD]
    read = read_events(write(tmp_path / "events.jsonl", rows))
    assert [(one.label, one.arrives) for one in read] == [(None, None), (None, None), (1, 9.0)]


def test_an_audit_without_any_label_is_refused():
    items = [item("a", 0, 1), item("b", 2, None), replace(item("c", 3, None), label=None)]
    assert divide(items, 1).counts["unlabelled"] == 1
    with pytest.raises(LarcError, match="none of the 1 questions of the audit has a label"):
        divide(items, 2)


def test_gzip_is_read_as_plain(tmp_path):
    plain = write(tmp_path / "events.jsonl", [GOOD, GOOD])
    packed = tmp_path / "events.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read_events(packed) == read_events(plain)
    packed.write_bytes(packed.read_bytes()[:-12])
    with pytest.raises(LarcError, match="the file is damaged from here on"):
        read_events(packed)


@pytest.mark.parametrize(
    ("asked", "arrives", "delay"),
    [
        ("2026-01-05T10:00:00Z", "2026-01-05T12:00:00+01:00", 3600),
        ("2026-01-05T10:00:00", "2026-01-05T10:00:00.5", 0.5),
        ("2026-01-05", "2026-01-06", 86400),
        (-3, 4.5, 7.5),
    ],
)
def test_times_are_iso_or_numbers(tmp_path, asked, arrives, delay):
    row = {**GOOD, "asked": asked, "arrives": arrives}
    [read] = read_events(write(tmp_path / "events.jsonl", [row]))
    assert read.arrives - read.asked == delay


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("{not json", "it is not JSON."),
        ("[1, 2]", "it is not an object"),
        (without("label"), "its label arrives, and it has none"),
        ({**GOOD, "label": None}, "its label arrives, and it has none"),
        (without("arrives"), "it has no arrives."),
        ({**GOOD, "arrive": 3}, "there is no field 'arrive'; did you mean 'arrives'?"),
        ({**GOOD, "weight": 3}, "there is no field 'weight'; there are: name, asked"),
        (json.dumps(GOOD)[:-1] + ', "asked": 1}', "a field is given twice."),
        ({**GOOD, "arrives": -1}, "its label arrives before it is asked."),
        ({**GOOD, "asked": "soon"}, "asked 'soon' is not an ISO 8601 time."),
        ({**GOOD, "asked": True}, "asked is neither a number nor an ISO 8601 time."),
        ({**GOOD, "asked": None}, "asked is neither a number nor an ISO 8601 time."),
        (json.dumps(GOOD).replace(": 9", ": Infinity"), "arrives is not a finite number."),
        ({**GOOD, "arrives": 10**400}, "arrives is not a finite number."),
        ({**GOOD, "arrives": "2026-01-05"}, "asked is one of numbers, and arrives one of times"),
        (
            {**GOOD, "asked": "2026-01-05", "arrives": None},
            "its times are times without an offset, and line 1 has numbers.",
        ),
        ({**GOOD, "candidates": ["yes"]}, "candidates is not a list of two texts or more."),
        ({**GOOD, "candidates": "yes"}, "candidates is not a list of two texts or more."),
        ({**GOOD, "candidates": ["a", 1]}, "candidates is not a list of two texts or more."),
        ({**GOOD, "candidates": ["a", "a"]}, "a candidate is empty or given twice."),
        ({**GOOD, "label": 2}, "label 2 is neither a candidate nor the index of one."),
        ({**GOOD, "label": -1}, "label -1 is neither"),
        ({**GOOD, "label": "maybe"}, "label 'maybe' is neither"),
        ({**GOOD, "label": True}, "label True is neither"),
        ({**GOOD, "prompt": ""}, "prompt is not a text of one character or more."),
        ({**GOOD, "prompt": "\ud800"}, "prompt is not a text of one character or more."),
        ({**GOOD, "name": 3}, "name is not a text of one character or more."),
        ({**GOOD, "group": None}, "group is not a text of one character or more."),
        ({**GOOD, "name": "1"}, "line 1 is called '1' too."),
    ],
)
def test_a_bad_line_is_named_with_its_reason(tmp_path, bad, reason):
    path = write(tmp_path / "events.jsonl", [GOOD, bad, GOOD])
    with pytest.raises(LarcError) as caught:
        read_events(path)
    assert str(caught.value).startswith(f"{path}: line 2: {reason}")
    assert "line 3" not in str(caught.value)


def test_names_are_unique_in_a_stream_only(tmp_path):
    rows = [{**GOOD, "name": "n", "stream": stream} for stream in "ab"]
    assert len(read_events(write(tmp_path / "events.jsonl", rows))) == 2


def test_many_bad_lines_are_counted_and_nothing_is_started(tmp_path, capsys):
    path = write(tmp_path / "events.jsonl", [GOOD, *["x"] * 9])
    out = tmp_path / "run"
    assert main(["study", "stream", "--events", str(path), "--out", str(out)]) == 1
    error = capsys.readouterr().err
    assert "line 6" in error
    assert "line 7" not in error
    assert "(and 4 more)" in error
    assert not out.exists()


def test_a_file_with_questions_is_needed(tmp_path, capsys):
    assert main(["study", "stream", "--out", str(tmp_path / "run")]) == 1
    assert "--events FILE.jsonl" in capsys.readouterr().err
    with pytest.raises(LarcError, match="cannot be read"):
        read_events(tmp_path / "nothing.jsonl")
    with pytest.raises(LarcError, match="holds no questions"):
        read_events(write(tmp_path / "empty.jsonl", [""]))


def test_only_labels_that_arrive_before_the_audit_are_trained_on():
    items = [
        item("in time", 0, 4),
        item("at the first audit question", 1, 5),
        item("never", 2, None),
        item("shared", 3, 4, group="both"),
        item("first", 5, 6),
        item("shared too", 5, 6, group="both"),
    ]
    parts = divide(items, train=4)
    assert [i.name for i in parts.training] == ["in time"]
    assert [i.name for i in parts.late] == ["at the first audit question"]
    assert [i.name for i in parts.audit] == ["first"]
    assert (parts.unanswered, parts.shared) == (1, 2)
    assert sum(parts.counts.values()) == len(items)


def test_one_group_name_in_two_streams_is_two_groups():
    items = [item("a", 0, 1, "g", "s"), item("b", 5, 6, "g", "t")]
    assert divide(items, train=1).shared == 0


@pytest.mark.parametrize(
    ("items", "train", "reason"),
    [
        ([item("a", 0, 1), item("b", 5, 6)], 2, "--train 2 leaves 2 for training and 0"),
        ([item("a", 0, 1), item("b", 5, 6)], 0, "--train 0 leaves 0 for training and 2"),
        ([item("a", 0, 1), item("b", 5, 6)], -1, "--train -1 leaves 0 for training and 2"),
        ([item("a", 0, 1, "g"), item("b", 5, 6, "g")], 1, "without the groups"),
        ([item("a", 0, 5), item("b", 5, 6)], 1, "give a larger --train"),
    ],
)
def test_both_parts_need_questions(items, train, reason):
    with pytest.raises(LarcError, match=reason):
        divide(items, train)


def test_the_order_of_lines_does_not_matter():
    items = synthetic_stream()
    assert divide(items[::-1], 16) == divide(items, 16)


def test_reading_a_stream_loads_no_model():
    script = "import sys, larc.studies.stream.questions; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
