"""Names of version 0.1: they work as before, and say what they are called now."""

import importlib
import sys
import warnings

import pytest

import larc
import larc.stream


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("larc", "Report"),
        ("larc.stream", "Item"),
        ("larc.stream", "Naps"),
        ("larc.stream", "PathSpec"),
        ("larc.stream", "PlainRoom"),
        ("larc.stream", "Room"),
    ],
)
def test_an_old_name_warns_and_is_there(module, name):
    with pytest.warns(DeprecationWarning, match=f"{module}.{name} is now"):
        assert getattr(importlib.import_module(module), name) is not None


@pytest.mark.parametrize("module", ["ci", "programs"])
def test_an_old_module_warns_and_has_what_it_had(module):
    sys.modules.pop(f"larc.{module}", None)
    with pytest.warns(DeprecationWarning, match=f"larc.{module} is now larc.domains.{module}"):
        old = importlib.import_module(f"larc.{module}")
    new = importlib.import_module(f"larc.domains.{module}")
    assert all(getattr(old, name) is getattr(new, name) for name in new.__all__)


def test_a_stream_written_for_version_01_runs(tiny):
    learner = larc.Learner(tiny, larc.SlowState.initial(tiny, seed=1, boundary=2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        item = larc.stream.Item("a", 0, 1, ("up", "down"), 1, prompt="Next: ")
        strategies = [
            larc.stream.PathSpec("kept"),
            larc.stream.PathSpec("sham", permuted=True),
            larc.stream.PathSpec("reset", retention="reset"),
        ]
        prompter = larc.stream.PlainRoom()
    session = larc.Session(learner, strategies, prompter, seed=1)
    with pytest.warns(DeprecationWarning, match=r"give larc\.Question"):
        before = session.ask([item])
    with pytest.warns(DeprecationWarning, match="learn"):
        session.arrive([item])
    after = session.ask([larc.Question("b", ("up", "down"), "Next: ")])
    assert (after["reset"][0] == before["reset"][0]).all()
    assert after["kept"][0][1] > before["kept"][0][1]


def test_settings_of_naps_are_settings_of_sleep():
    sleep = larc.stream.SleepSettings()
    with pytest.warns(DeprecationWarning, match="naps"):
        settings = larc.stream.ForecasterSettings(naps=sleep)
    assert settings == larc.stream.ForecasterSettings(sleep=sleep)
