import json

import pytest

from larc.cli import main

GOOD = {
    "prompt": "Is 2 even? ",
    "candidates": ["yes", "no"],
    "support": [0, 1],
    "query": [0, 1],
    "group": "two",
    "split": "training",
}


def write(path, rows):
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in rows) + "\n")
    return path


def run(path, out):
    return main(["study", "tasks", "--preset", "smoke", "--tasks", str(path), "--out", str(out)])


def test_the_protocol_runs_on_ones_own_episodes(tmp_path):
    rows = [
        {
            **GOOD,
            "prompt": f"Is {n} even? ",
            "candidates": ["yes", "no", "perhaps"][: 2 + n % 2],
            "support": [n % 2, 1 - n % 2, 1][: 2 + n % 2],
            "query": [n % 2, 1 - n % 2, 1][: 2 + n % 2],
            "group": str(n),
            "family": "small" if n < 6 else "large",
            "split": "training" if n % 3 else "development",
        }
        for n in range(12)
    ]
    out = tmp_path / "run"
    assert run(write(tmp_path / "tasks.jsonl", rows), out) == 0
    report = (out / "report.md").read_text()
    assert "Keeping what feedback taught" in report
    assert main(["verify", str(out)]) == 0


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("{not json", "line 2: it is not JSON."),
        ("[1, 2]", "line 2: it is not an object"),
        ({"prompt": "x"}, "line 2: it has no candidates, support, query."),
        ({**GOOD, "support": [0]}, "line 2: 1 losses were given for 2 candidates"),
        ({**GOOD, "query": [0, "1"]}, "line 2: query is not a list of numbers."),
        ({**GOOD, "candidates": ["a", "a"]}, "line 2: a candidate is empty or given twice."),
        ({**GOOD, "candidates": "ab"}, "line 2: candidates is not a list of texts."),
        ({**GOOD, "split": "test"}, "line 2: split 'test' is neither"),
        ({**GOOD, "weight": 3}, "line 2: weight is no field"),
        ({**GOOD, "group": 3}, "line 2: group is not a text."),
        ('{"prompt": "x", "candidates": ["a"], "support": [NaN], "query": [0]}', "a finite number"),
    ],
)
def test_bad_lines_are_named_before_anything_starts(tmp_path, capsys, bad, reason):
    path = write(
        tmp_path / "tasks.jsonl", [GOOD, bad, {**GOOD, "group": "x", "split": "development"}]
    )
    assert run(path, tmp_path / "run") == 1
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_many_bad_lines_are_counted(tmp_path, capsys):
    path = write(tmp_path / "tasks.jsonl", ["x"] * 9)
    assert run(path, tmp_path / "run") == 1
    error = capsys.readouterr().err
    assert "line 5" in error
    assert "(and 4 more)" in error


def test_a_group_stays_in_one_split(tmp_path, capsys):
    path = write(tmp_path / "tasks.jsonl", [GOOD, {**GOOD, "split": "development"}])
    assert run(path, tmp_path / "run") == 1
    assert "'two' in both splits" in capsys.readouterr().err


def test_both_splits_are_needed_and_a_file(tmp_path, capsys):
    assert run(write(tmp_path / "tasks.jsonl", [GOOD]), tmp_path / "run") == 1
    assert "1 training and 0 development" in capsys.readouterr().err
    assert run(tmp_path / "nothing.jsonl", tmp_path / "run") == 1
    assert "cannot be read" in capsys.readouterr().err
    assert main(["study", "tasks", "--preset", "smoke"]) == 1
    assert "--tasks FILE.jsonl" in capsys.readouterr().err
