import json

import numpy as np
import pytest

from larc.cli import main
from larc.io.parquet import from_parquet
from larc.runs.run import Run
from larc.studies.episodic.names import prediction_name
from larc.studies.episodic.results import load_results

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


def piece(text, label, kinds=("yes", "no", "perhaps")):
    return {"prompt": text, "candidates": list(kinds), "label": label}


def customer(number, split):
    kinds = ("yes", "no", "perhaps")[: 2 + number % 2]
    return {
        "support": [
            [piece(f"ticket {batch}: ", (number + batch) % 2, kinds)] for batch in range(number % 3)
        ]
        + [piece("last: ", kinds[number % 2], kinds)],
        "query": [
            piece("other: ", number % 2, kinds),
            {"prompt": "more: ", "candidates": ["a", "b"], "losses": [0.5, 0.25]},
        ],
        "group": f"customer {number}",
        "split": split,
    }


def test_tasks_of_many_questions_run_through_the_whole_study(tmp_path):
    rows = [customer(n, "training" if n % 3 else "development") for n in range(12)]
    out = tmp_path / "run"
    assert run(write(tmp_path / "tasks.jsonl", [*rows, GOOD]), out) == 0
    report = (out / "report.md").read_text()
    assert "Keeping what feedback taught" in report
    assert "lowest support loss" not in report  # there is no such rule over several questions
    assert main(["verify", str(out)]) == 0
    queries = from_parquet(Run(out).unit_file("queries", "queries.parquet"), "queries")
    assert [row["question"] for row in queries] == [0, 1] * 4
    results = load_results(Run(out))
    assert len(results.names) == 4
    # A task's risk is the mean over its questions.
    said = {
        (row["cell"], row["name"], row["question"]): row["policy"]
        for row in from_parquet(
            Run(out).unit_file(prediction_name("static", 2026092811), "predictions.parquet"), "it"
        )
    }
    by_hand = [
        float(np.dot(said["real_keep", row["name"], row["question"]], row["query"]))
        for row in queries
    ]
    means = [(one + other) / 2 for one, other in zip(by_hand[::2], by_hand[1::2], strict=True)]
    assert results.risk["static", "real_keep"][0] == pytest.approx(means)


MANY = customer(3, "training")


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({**MANY, "query": "x"}, "line 2: query is not a list of questions"),
        ({**MANY, "query": []}, "line 2: a task's query is empty"),
        ({**MANY, "support": []}, "line 2: a task without a prompt has no support"),
        ({**MANY, "support": [[1]]}, "line 2: support 0, question 0: it is not an object"),
        ({**MANY, "query": [{"prompt": "x"}]}, "line 2: query, question 0: it has no candidates."),
        ({**MANY, "query": [piece("x", "maybe")]}, "question 0: the label 'maybe' is none of"),
        ({**MANY, "query": [piece("x", 5)]}, "question 0: index 5 names no candidate"),
        ({**MANY, "query": [{**piece("x", 0), "losses": [0]}]}, "either a label or losses"),
        ({**MANY, "query": [{**piece("x", 0), "why": 1}]}, "why is no field of a question"),
        ({**MANY, "prompt": "x"}, "line 2: it has no candidates."),
    ],
)
def test_bad_questions_are_named_by_line_and_number(tmp_path, capsys, bad, reason):
    rows = [GOOD, bad, {**GOOD, "group": "x", "split": "development"}]
    assert run(write(tmp_path / "tasks.jsonl", rows), tmp_path / "run") == 1
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def episodes(**changes):
    return [
        {**GOOD, "prompt": f"Is {n} even? ", "group": str(n), "split": split, **changes}
        for n, split in enumerate(["training", "training", "development"])
    ]


def refused(tmp_path, capsys, rows):
    assert run(write(tmp_path / "tasks.jsonl", rows), tmp_path / "run") == 1
    assert not (tmp_path / "run").exists()
    return capsys.readouterr().err


@pytest.mark.parametrize("number", [2, 3])
def test_a_prompt_over_the_limit_is_refused_by_its_line_before_any_training(
    tmp_path, capsys, number
):
    rows = episodes()
    rows[number - 1]["prompt"] = "x" * 400
    told = refused(tmp_path, capsys, rows)
    assert f"line {number}: the prompt has 400 tokens, over the limit of 384" in told
    assert "--prompt-limit" in told
    # The limit can be raised in the same directory: nothing was begun there.
    more = ["--prompt-limit", "500", "--updates", "1", "--out", str(tmp_path / "run")]
    path = str(tmp_path / "tasks.jsonl")
    assert main(["study", "tasks", "--preset", "smoke", "--tasks", path, *more]) == 0


def test_lines_may_hold_any_character_of_json(tmp_path):
    rows = [json.dumps(row, ensure_ascii=False) for row in episodes()]
    rows[0] = "\ufeff" + rows[0].replace("even?", "even\u2028or\u2029odd\u0085?")
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(("\n".join(rows) + "\n").encode())
    assert run(path, tmp_path / "run") == 0


def test_one_group_gives_no_interval_and_the_sentence_says_so(tmp_path, capsys):
    assert run(write(tmp_path / "tasks.jsonl", episodes()), tmp_path / "run") == 0
    report = (tmp_path / "run" / "report.md").read_text()
    assert "Keeping what feedback taught cannot be judged" in report
    assert "(no interval: fewer than 4 groups, or one of each family)" in report
    assert "helped" not in report
    assert main(["report", str(tmp_path / "run"), "--json"]) == 0
    assert "cannot be judged" in capsys.readouterr().out


def test_losses_of_any_range_are_called_losses(tmp_path):
    rows = episodes(query=[0, 40], support=[0, 40])
    assert run(write(tmp_path / "tasks.jsonl", rows), tmp_path / "run") == 0
    report = (tmp_path / "run" / "report.md").read_text()
    assert "expected query loss was" in report
    assert "error" not in report.split("## ")[0]
    assert "Expected query loss after adaptation to real feedback; lower is better." in report
    assert "percentage points" not in report


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"prompt": "x", "prompt": "y"}', "line 2: a field is given twice."),
        (json.dumps({**GOOD, "prompt": "\ud800"}), "line 2: the prompt of a task holds half"),
        (json.dumps(GOOD).replace("[0, 1]", f"[{'9' * 400}, 1]", 1), "line 2: one of the losses"),
        ("x" * (17 * 2**20), "line 2: it is too long to be one object."),
    ],
)
def test_lines_that_a_machine_made_wrong_are_refused(tmp_path, capsys, line, reason):
    assert reason in refused(tmp_path, capsys, [GOOD, line])
