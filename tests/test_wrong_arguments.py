"""Wrong arguments of everything public, a little of what ``make torture`` tries."""

import pytest

import larc
from benchmarks.torture.arguments import Called, call_all
from benchmarks.torture.callables import COMMANDS, NOT_CALLED, World, commands
from larc.studies.registry import STUDIES


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of aliases, which are tried too
def test_wrong_arguments_are_one_sentence_and_change_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("LARC_CACHE", str(tmp_path / "cache"))
    outcome = Called()
    call_all(tmp_path / "calls", 150, 1, outcome, print)
    assert outcome.problems == []
    assert outcome.tried >= 150
    assert outcome.refused > 75


def test_everything_public_is_given_wrong_arguments(tmp_path):
    calls = World(tmp_path).calls()
    public = {getattr(larc, name).__qualname__ for name in {*larc.__all__} - NOT_CALLED}
    assert {call.name.partition(".")[0] for call in calls} >= public
    for kind in (larc.Learner, larc.Session, larc.Controller):
        methods = {f"{kind.__name__}.{name}" for name in vars(kind) if not name.startswith("_")}
        named = {call.name for call in calls}
        left = {name for name in methods - named if callable(getattr(kind, name.split(".")[1]))}
        # Called in a function of their own, without arguments, or by what reads files.
        assert left <= {
            *("Learner.active", "Learner.update_many", "Learner.restored"),
            *("Controller.bound", "Controller.report"),
        }
    # Other tests may have registered studies of their own.
    foreign = {k for k, one in STUDIES.items() if not one.settings.__module__.startswith("larc.")}
    known = [words for words in commands() if words[-1] not in foreign]
    assert {words for words in known for line in COMMANDS if line[: len(words)] == words} == {
        *known
    }
