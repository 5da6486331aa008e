"""Files of streams: what is read, what is refused, and which stream goes where."""

import gzip
import json
from dataclasses import replace

import pytest

from larc.cli import main
from larc.errors import LarcError
from larc.stream.queue import Ask
from larc.studies.replay import ordered
from larc.studies.streams.reading import read_streams
from larc.studies.streams.settings import PRESETS, StreamsSettings
from larc.studies.streams.split import data_sets, divide, part_names, recorded
from larc.studies.streams.synthetic import synthetic_streams


def line(number=0, **changed):
    row = {
        "stream": "shop",
        "item_id": f"i{number}",
        "order": number,
        "text": f"Ticket {number}",
        "candidates": ["bank", "shop"],
        "label": number % 2,
    }
    return {key: value for key, value in {**row, **changed}.items() if value is not None}


def write(path, lines):
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return path


def test_a_file_is_read_in_order_plain_or_gzip_and_other_keys_are_left_alone(tmp_path):
    lines = [line(2), line(0, label="bank", author="a1"), line(1), line(0, stream="other")]
    path = write(tmp_path / "tickets.jsonl", lines)
    packed = tmp_path / "tickets.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    for file in (path, packed):
        streams = read_streams(file)
        assert list(streams) == ["other", "shop"]
        assert [item.name for item in streams["shop"]] == ["i0", "i1", "i2"]
        assert [item.label for item in streams["shop"]] == [0, 1, 0]


def test_without_order_times_decide_and_equal_times_stay_as_they_are(tmp_path):
    days = ["2026-01-02", "2026-01-01", "2026-01-02"]
    lines = [line(n, order=None, time=day) for n, day in enumerate(days)]
    assert [i.name for i in read_streams(write(tmp_path / "t.jsonl", lines))["shop"]] == [
        *("i1", "i0", "i2")
    ]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"text": None}, "it has no text."),
        ({"stream": ""}, "stream is not a text"),
        ({"order": None}, "it has neither order nor time"),
        ({"order": 1.5}, "order is not a whole number."),
        ({"time": "tomorrow"}, "not an ISO 8601 time."),
        ({"candidates": ["bank"]}, "candidates is not a list of two texts or more."),
        ({"candidates": ["bank", "bank"]}, "a candidate is empty or given twice."),
        ({"label": 2}, "label 2 is neither a candidate nor the index of one."),
        ({"label": True}, "label True is neither"),
        ({"arrival": 5}, "arrival is one of numbers, and time one of no time."),
        ({"item_id": "i0"}, "line 1 is called 'i0' in 'shop' too."),
        ({"order": 0}, "line 1 has the order 0 in 'shop' too."),
        ({"time": 3}, "it has order and numbers, and line 1 has order and no time."),
    ],
)
def test_every_bad_line_is_named(tmp_path, changed, sentence):
    path = write(tmp_path / "t.jsonl", [line(0), line(1, **changed)])
    with pytest.raises(LarcError, match="line 2: ") as error:
        read_streams(path)
    assert sentence in str(error.value)


def test_all_bad_lines_are_named_at_once_and_times_may_not_go_back(tmp_path):
    path = write(tmp_path / "t.jsonl", [line(0, text=None), line(1), line(2, label=9)])
    with pytest.raises(LarcError, match=r"line 1: .* line 3: "):
        read_streams(path)
    path = write(tmp_path / "t.jsonl", [line(0, time=5), line(1, time=4)])
    with pytest.raises(LarcError, match="line 2: its time is before that of line 1"):
        read_streams(path)
    path = write(tmp_path / "t.jsonl", [line(0, time=5, arrival=4)])
    with pytest.raises(LarcError, match="its label arrives before it came"):
        read_streams(path)


def test_parts_share_no_stream_and_follow_the_names_alone():
    names = [f"s{number}" for number in range(40)]
    settings = StreamsSettings(looked_at=("s3", "s4", "elsewhere"))
    parts = part_names(names, settings)
    assert sorted(name for members in parts.values() for name in members) == sorted(names)
    assert set(parts["validation"]) >= {"s3", "s4"}
    assert parts == part_names(names[::-1], settings)
    assert [len(parts[part]) for part in ("training", "validation", "test")] == [16, 10, 14]


def test_streams_that_were_looked_at_are_never_for_test():
    names = [f"s{number}" for number in range(10)]
    usual = part_names(names, StreamsSettings())
    looked_at = tuple(usual["test"][:2])
    parts = part_names(names, StreamsSettings(looked_at=looked_at))
    assert set(looked_at) <= set(parts["validation"])
    assert not set(looked_at) & set(parts["test"])
    applied = part_names(names, StreamsSettings(looked_at=looked_at, start="package"))
    assert not set(looked_at) & set(applied["test"])
    assert applied["training"] == []
    with pytest.raises(LarcError, match="none is left for t"):
        part_names(names, StreamsSettings(looked_at=tuple(names)))


def test_caps_cut_streams_and_questions_and_say_so():
    settings = replace(PRESETS["smoke"], test_streams=2, test_questions=5)
    parts = divide("synthetic", synthetic_streams(), settings)
    assert [len(stream) for stream in parts.test] == [5, 5]
    assert parts.counts["test"] == {
        "streams": 4,
        "questions": 96,
        "used_streams": 2,
        "used_questions": 10,
    }


@pytest.mark.parametrize(("delay", "missing"), [("0", 0), ("1", 1), ("10", 10)])
def test_a_label_is_known_after_so_many_further_questions(delay, missing):
    items = synthetic_streams()["synthetic-site-00"]
    arrived, asked = [], 0
    for event in ordered(recorded(items, StreamsSettings(delay=delay))):
        if isinstance(event, Ask):
            assert len(event.items) == 1
            assert len(arrived) == max(0, asked - missing)
            asked += 1
        else:
            arrived += event.items
    assert asked == len(items)


def test_the_data_s_own_clock_can_decide(tmp_path):
    lines = [line(n, time=100 * n, arrival=100 * n + 250) for n in range(6)]
    items = read_streams(write(tmp_path / "t.jsonl", lines))["shop"]
    late = recorded(items, StreamsSettings(delay="data"))
    assert [(one.asked, one.arrives) for one in late[:2]] == [(0, 250), (100, 350)]
    fixed = recorded(items, StreamsSettings(delay="30s"))
    assert [(one.asked, one.arrives) for one in fixed[:2]] == [(0, 30), (100, 130)]
    timeless = read_streams(write(tmp_path / "n.jsonl", [line(0), line(1)]))["shop"]
    for delay, lacking in (("30s", "time"), ("data", "time")):
        with pytest.raises(LarcError, match=f"has no {lacking}, which --delay {delay} needs"):
            recorded(timeless, StreamsSettings(delay=delay))


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"delay": "soon"}, "is no delay"),
        ({"prompt": "Answer: "}, "does not say where the text goes"),
        ({"objectives": ("dynamic",)}, "give some of static, first-order, exact"),
        ({"scores": ()}, "give some of mean, sum, prior"),
        ({"rules": ()}, "no rule was given"),
        ({"test_share": 0.9}, "leave some for training"),
    ],
)
def test_settings_that_could_not_be_carried_out_are_refused(changed, sentence):
    with pytest.raises(LarcError, match=sentence):
        StreamsSettings(**changed)


def test_data_have_to_be_named_each_once(tmp_path):
    with pytest.raises(LarcError, match="no data were given"):
        data_sets(StreamsSettings())
    with pytest.raises(LarcError, match="two files are called alike"):
        data_sets(replace(PRESETS["smoke"], data=("synthetic", "synthetic")))


def test_a_line_may_have_no_label_where_none_will_come(tmp_path):
    lines = [line(0), {**line(1), "label": None}, line(2), line(3)]
    del lines[2]["label"]
    items = read_streams(write(tmp_path / "t.jsonl", lines))["shop"]
    assert [item.label for item in items] == [0, None, None, 1]
    asked = recorded(items, StreamsSettings(delay="1"))
    assert [item.arrives for item in asked] == [1.5, None, None, 4.5]
    events = list(ordered(asked))
    assert sum(len(event.items) for event in events if isinstance(event, Ask)) == 4
    assert [i.name for event in events if not isinstance(event, Ask) for i in event.items] == [
        *("i0", "i3")
    ]


@pytest.mark.parametrize("delay", ["data", "60s"])
def test_by_the_clock_of_the_data_too_nothing_arrives_without_a_label(tmp_path, delay):
    lines = [line(n, time=n, arrival=n + 5) for n in range(3)]
    del lines[1]["label"], lines[1]["arrival"]
    items = read_streams(write(tmp_path / "t.jsonl", lines))["shop"]
    arrivals = [item.arrives for item in recorded(items, StreamsSettings(delay=delay))]
    assert arrivals == ([5.0, None, 7.0] if delay == "data" else [60.0, None, 62.0])


def test_a_label_that_arrives_and_is_none_and_a_stream_without_one_are_refused(tmp_path):
    with pytest.raises(LarcError, match="line 1: its label arrives, and it has none"):
        read_streams(write(tmp_path / "t.jsonl", [line(0, label=None, time=0, arrival=1)]))
    streams = {
        name: [replace(item, label=None) for item in items]
        for name, items in synthetic_streams().items()
    }
    with pytest.raises(LarcError, match="has a label, so nothing can be learned or scored there"):
        divide("synthetic", streams, PRESETS["smoke"])


def test_a_text_over_the_limit_is_refused_before_any_training_wherever_its_stream_is(
    tmp_path, capsys
):
    lines = [
        line(number, stream=stream, text=f"Ticket {number} of {stream}")
        for stream in (f"s{number}" for number in range(8))
        for number in range(6)
    ]
    settings = replace(PRESETS["smoke"], data=(str(write(tmp_path / "t.jsonl", lines)),))
    (data,) = data_sets(settings)
    long = {"validation": data.validation[0][0].stream, "test": data.test[-1][0].stream}
    command = ["study", "streams", "--preset", "smoke", "--seeds", "7", "--scores", "prior"]
    command += ["--objectives", "static", "--costly-streams", "0", "--updates", "1"]
    for part, stream in long.items():
        changed = [{**one, "text": "x" * 2000} if one["stream"] == stream else one for one in lines]
        file, out = write(tmp_path / f"{part}.jsonl", changed), tmp_path / part
        line_of = [*command, "--data", str(file), "--out", str(out)]
        assert main(line_of) == 1
        told = capsys.readouterr().err
        assert f"of {stream!r}: the prompt has 2009 tokens, over the limit of 1024" in told
        assert not out.exists()  # nothing was begun, so the limit can be raised
    assert main([*line_of, "--prompt-limit", "2100", "--validation-streams", "1"]) == 0
