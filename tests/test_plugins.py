"""Rules, prompters and experts of one's own, in a study, by the name of their class."""

import sys

import pytest

from larc.cli import main
from larc.errors import LarcError
from larc.io.parquet import from_parquet
from larc.plugins import load_object
from larc.rules import SGD, parse_rule

MODULE = """
from dataclasses import dataclass

from larc.rules import SGD
from larc.stream import LabelFrequency, PlainPrompter


@dataclass(frozen=True)
class Careful(SGD):
    step_size: float = 0.01


class Shouting(PlainPrompter):
    def prompts(self, question):
        return {"plain": question.prompt.upper()}


class First(LabelFrequency):
    names = ("FIRST",)

    def ask(self, questions):
        return {"FIRST": [[1.0] + [0.0] * (len(q.candidates) - 1) for q in questions]}
"""
SMALL = ["--preset", "smoke", "--seeds", "7"]
OWN = ["--rule", "larc_test_plugins:Careful", "--prompter", "larc_test_plugins:Shouting"]


@pytest.fixture
def directory(tmp_path, monkeypatch):
    (tmp_path / "larc_test_plugins.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("larc_test_plugins", None)


def predictions(out):
    paths = sorted(out.glob("units/audit-*/predictions.parquet"))
    return [row for path in paths for row in from_parquet(path.read_bytes(), path.name)]


def test_a_study_takes_them_by_name_and_its_report_and_check_need_none(directory):
    plain, mine = directory / "plain", directory / "mine"
    assert main(["study", "stream", *SMALL, "--out", str(plain)]) == 0
    experts = ["--experts", "prior,larc_test_plugins:First"]
    assert main(["study", "stream", *SMALL, *OWN, *experts, "--out", str(mine)]) == 0
    # What is first in a question has all of the new expert's probability; the old one is there.
    by_name = {row["path"]: row for row in predictions(mine)}
    assert {"FIRST", "PRIOR"} <= set(by_name)
    assert "FIRST" not in {row["path"] for row in predictions(plain)}
    # The prompts are others, so the states answer otherwise.
    answers = [[row for row in predictions(out) if row["path"] == "CARRY"] for out in (plain, mine)]
    assert len(answers[0]) == len(answers[1]) > 0
    assert answers[0] != answers[1]
    # A finished run is read without importing anything that it names.
    (directory / "larc_test_plugins.py").write_text("raise SystemExit('was imported')")
    sys.modules.pop("larc_test_plugins")
    assert main(["verify", str(mine)]) == 0
    assert main(["report", str(mine)]) == 0
    assert "larc_test_plugins" not in sys.modules


@pytest.mark.parametrize(
    ("option", "name"),
    [("--rule", "rule"), ("--prompter", "prompter"), ("--experts", "expert")],
)
def test_one_that_is_not_there_is_refused_before_anything_is_done(directory, capsys, option, name):
    out = directory / "run"
    arguments = [option, "larc_test_plugins:Missing"]
    assert main(["study", "stream", *SMALL, *arguments, "--out", str(out)]) == 1
    message = capsys.readouterr().err
    assert f"the {name} 'larc_test_plugins:Missing' is not there" in message
    assert not out.exists()


def test_a_rule_takes_its_numbers_after_its_name(directory):
    rule = parse_rule("larc_test_plugins:Careful:0.5")
    assert isinstance(rule, SGD)
    assert rule.step_size == 0.5


def test_a_module_that_fails_is_one_sentence(directory):
    (directory / "larc_test_plugins.py").write_text("1 / 0")
    with pytest.raises(LarcError, match=r"is not there \(.*division by zero"):
        load_object("larc_test_plugins:Rule", "rule")
