"""Saved sessions: older versions are read, other sessions refused, and nothing is half restored."""

import os
import shutil
import subprocess
import sys
from copy import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import larc
from larc.domains.ci.jobs import Observation
from larc.domains.ci.prompter import JobPrompter, job_question
from larc.io import journal as journals
from larc.residual import Factors
from larc.stream import PlainPrompter, Strategy
from larc.stream.awaited import LabelMemory, PastLabel
from larc.stream.question import questions_of
from larc.stream.saving import SessionFile, json_part
from larc.stream.session import Session, SessionLimits
from larc.stream.session_file import load_session, pack_session
from tests.stream.test_controller import SLEEPY, controller_on, run
from tests.stream.test_session import STRATEGIES, STREAM, events, follow, replay, session_on

DATA = Path(__file__).parent / "data"
# Saved after the first four events of STREAM, by the code of commits 4526cff, 794cef4 and 46b172c.
VERSION_1 = DATA / "session-version-1.safetensors"
VERSION_2 = DATA / "session-version-2.safetensors"
VERSION_3 = DATA / "session-version-3.safetensors"
OLDER = pytest.mark.parametrize("path", [VERSION_1, VERSION_2, VERSION_3], ids=["1", "2", "3"])
WITHOUT_CANDIDATES = pytest.mark.parametrize("path", [VERSION_1, VERSION_2], ids=["1", "2"])


@OLDER
def test_older_versions_are_read_and_gone_on_with(tiny, path):
    whole = replay(session_on(tiny), STREAM)
    session = session_on(tiny)
    assert session.restore(path, questions_of(STREAM)) == {"done": 4}
    assert session.events == 4
    (awaited,) = session.pending.values()
    assert awaited.question == STREAM[2].question
    assert awaited.prompts == {"plain": "Question 2: "}
    assert session.episodes["carry"].step == 1
    rest = replay(session, STREAM, skip=4)
    for name, policies in rest.items():
        for strategy, policy in policies.items():
            # The file may be of another machine, whose sums differ in their last bits.
            np.testing.assert_allclose(policy, whole[name][strategy], atol=1e-5)
    assert list(rest) == ["003", "004", "005", "006"]


@WITHOUT_CANDIDATES
def test_candidates_that_no_file_kept_are_asked_for_and_stay_unknown(tiny, tmp_path, path):
    session = session_on(tiny)
    session.restore(path)
    before = session.episodes["carry"].factors
    with pytest.raises(larc.LarcError, match=r"candidates of '002'; restore it with questions="):
        session.learn({"002": 0})
    assert session.episodes["carry"].factors is before
    # Saved again it is of today's version, and what is unknown can still be told.
    session.save(tmp_path / "session", {"done": 4})
    again = session_on(tiny)
    assert again.restore(tmp_path / "session") == {"done": 4}
    assert list(again.pending) == ["002"]
    again.restore(tmp_path / "session", questions_of(STREAM))
    assert again.learn({"002": "up"})["carry"].distance > 0
    session.drop(["002"])
    assert not session.pending


def test_what_version_1_did_not_say_is_not_compared_and_later_ones_say_it(tiny, tmp_path):
    assert load_session(VERSION_1).facts["rule"] is None
    session_on(tiny).save(tmp_path / "session")
    other = larc.Learner(tiny, session_on(tiny).learner.slow, larc.SGD(0.25))
    session = Session(other, STRATEGIES, PlainPrompter(), seed=1)
    session.restore(VERSION_1)
    for path in (VERSION_2, VERSION_3, tmp_path / "session"):
        with pytest.raises(larc.LarcError, match=r"update rule .*0\.5.*not SGD"):
            session.restore(path)


def test_questions_are_kept_whole_with_what_their_prompter_knows_them_by(tiny, tmp_path):
    learner = larc.Learner(tiny, larc.SlowState.initial(tiny, seed=1), larc.SGD(0.5))
    strategies = [Strategy("with cases", view="remembered"), Strategy("without")]
    first = Session(learner, strategies, JobPrompter(), seed=1)
    jobs = [
        job_question(number, Observation("o/r", 5, None, "push", "build", "aa", 10))
        for number in (1, 2)
    ]
    first.ask(jobs[:1])
    first.learn({jobs[0].name: "failure"})
    first.ask(jobs[1:])
    first.save(tmp_path / "session")
    second = Session(learner, strategies, JobPrompter(), seed=1)
    second.restore(tmp_path / "session")
    assert second.pending == first.pending
    assert second.pending[jobs[1].name].question == jobs[1]
    one, other = (session.learn({jobs[1].name: 1}) for session in (first, second))
    assert one == other
    assert first.prompter.state() == second.prompter.state()


def test_a_resumed_session_differs_from_a_cold_one(tiny, tmp_path):
    first = session_on(tiny)
    follow(first, events(STREAM)[:4])
    first.save(tmp_path / "session")
    resumed, cold = session_on(tiny), session_on(tiny)
    resumed.restore(tmp_path / "session")
    last = questions_of(STREAM[-1:])
    assert not np.array_equal(resumed.ask(last)["carry"], cold.ask(last)["carry"])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda facts: facts.pop("notes"),
        lambda facts: facts["pending"].update({"005": 1}),
        lambda facts: facts.update(events="many"),
        lambda facts: facts["episodes"]["sham"].pop("stream"),
        lambda facts: facts["episodes"]["sham"].update(stream={"bit_generator": "MT19937"}),
        lambda facts: facts["episodes"]["biased"].update(step=None),
        lambda facts: facts["episodes"].pop("biased"),
        lambda facts: facts.update(strategies=None),
        lambda facts: facts.pop("rule"),
        lambda facts: facts.pop("prompter"),
        lambda facts: facts["pending"]["005"].pop("prompts"),
        lambda facts: facts["pending"]["005"].update(candidates=["up", "up"]),
    ],
)
def test_a_whole_file_that_is_no_session_changes_nothing(tiny, tmp_path, spoil):
    saved = session_on(tiny)
    replay(saved, STREAM)
    saved.save(tmp_path / "session")
    kept = load_session(tmp_path / "session")
    spoil(kept.facts)
    (tmp_path / "session").write_bytes(pack_session(kept.factors, kept.facts))
    session = session_on(tiny)
    assert list(saved.pending) == ["005"]
    with pytest.raises(larc.LarcError):
        session.restore(tmp_path / "session")
    assert (session.pending, session.events) == ({}, 0)
    for episode in session.episodes.values():
        assert episode.step == 0
        assert episode.factors.equal(session.learner.slow.factors)


def test_factors_of_another_shape_are_refused(tiny, tmp_path):
    session_on(tiny).save(tmp_path / "session")
    kept = load_session(tmp_path / "session")
    kept.factors["carry"] = Factors(torch.zeros(2, 32), torch.zeros(32, 2))
    (tmp_path / "session").write_bytes(pack_session(kept.factors, kept.facts))
    with pytest.raises(larc.LarcError, match="rank 2"):
        session_on(tiny).restore(tmp_path / "session")


def test_a_file_of_an_older_version_is_saved_over_in_today_s_form(tiny, tmp_path):
    shutil.copy(VERSION_3, tmp_path / "session")
    session = session_on(tiny)
    session.restore(tmp_path / "session")
    session.learn({"002": "up"})
    session.save(tmp_path / "session", {"done": 5})
    again = session_on(tiny)
    assert again.restore(tmp_path / "session") == {"done": 5}
    with pytest.raises(larc.DuplicateLabel):
        again.learn({"002": "up"})


def test_a_controller_of_version_3_goes_on(tiny):
    given = {"oracle": [0.1, 0.8, 0.1]}
    whole = controller_on(tiny, experts=("oracle",), settings=SLEEPY)
    expected = run(whole, range(9), given)
    again = controller_on(tiny, experts=("oracle",), settings=SLEEPY)
    assert again.restore(DATA / "controller-version-3.safetensors") == {"note": 1}
    again.learn({"006": 1})
    for ours, theirs in zip(run(again, range(7, 9), given), expected[7:], strict=True):
        # The file may be of another machine, whose sums differ in their last bits.
        assert ours.forecast.probabilities == pytest.approx(theirs.forecast.probabilities, abs=1e-5)


def changed_sections(session, path):
    """Save; returns what the last record of the file holds."""
    seen = []
    real = journals._pack
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journals, "_pack", lambda *args: seen.append(args[1:]) or real(*args))
        session.save(path)
    ((removed, sections),) = seen
    return sorted(removed), sorted(sections)


def test_saving_writes_what_changed_and_nothing_else(tiny, tmp_path):
    path = tmp_path / "session"
    session = session_on(tiny, strategies=[Strategy("a"), Strategy("b", sham=True), Strategy("c")])
    session.ask(questions_of(STREAM[:5]))
    session.save(path)
    assert changed_sections(session, path) == ([], [])
    session.ask(questions_of(STREAM[5:6]))
    assert changed_sections(session, path) == ([], ["events", "pending/005"])
    session.learn({"001": 1}, only=["b"])
    assert changed_sections(session, path) == (
        ["pending/001"],
        ["episodes/b", "events", "factors/b", "labelled/001"],
    )
    session.drop(["002"])
    assert changed_sections(session, path) == (["pending/002"], ["events"])
    session.correct("001", 2)
    assert changed_sections(session, path) == ([], ["events", "labelled/001"])
    whole = len(pack_session(*(lambda kept: (kept.factors, kept.facts))(load_session(path))))
    before = path.stat().st_size
    session.learn({"000": 1}, only=["a"])
    session.save(path)
    assert path.stat().st_size - before < whole / 2


@pytest.mark.parametrize("known", [3, 300])
def test_what_is_made_for_a_save_does_not_grow_with_what_is_known(tiny, tmp_path, known):
    """Sections made and bytes written after one more question, however many labels there were."""
    session = session_on(tiny, strategies=[Strategy("a"), Strategy("b", sham=True), Strategy("c")])
    session.ask(questions_of(STREAM[:5]))
    session.learn({"000": 1})
    for number in range(known):
        session.labelled.remember(f"earlier {number:03}", session.labelled["000"])
    session.save(tmp_path / "session")
    before, size = dict(session.file._sections), (tmp_path / "session").stat().st_size
    session.ask(questions_of(STREAM[5:6]))
    session.save(tmp_path / "session")
    made = [name for name, one in session.file._sections.items() if before.get(name) is not one]
    small = ["events", "prompter", "notes", "episodes/a", "episodes/b", "episodes/c"]
    assert sorted(made) == sorted([*small, "pending/005"])
    assert (tmp_path / "session").stat().st_size - size < 600


class Counted(dict):
    """A dictionary that counts how often an entry is looked at, and is never gone through."""

    touched = 0

    def _one(method):
        def counted(self, *given):
            self.touched += 1
            return method(self, *given)

        return counted

    def _all(self):
        raise AssertionError("all entries were gone through")

    __getitem__, __setitem__, __delitem__ = map(
        _one, (dict.__getitem__, dict.__setitem__, dict.__delitem__)
    )
    __contains__, get, pop = map(_one, (dict.__contains__, dict.get, dict.pop))
    __iter__ = keys = values = items = copy = _all


@pytest.mark.parametrize("known", [90, 9000])
def test_a_save_looks_at_as_many_labels_as_changed(tiny, tmp_path, known):
    session = session_on(tiny, strategies=[Strategy("a")], limits=SessionLimits(labelled=2**20))
    session.ask(questions_of(STREAM[:5]))
    session.learn({"000": 1})
    for number in range(known - 1):
        session.labelled.remember(f"earlier {number}", session.labelled["000"])
    path = tmp_path / "session"
    session.save(path)
    memory, file = session.labelled, session.file
    memory._labels, file._encoded = Counted(memory._labels), Counted(file._encoded)
    file._labels.sections = Counted(file._labels.sections)
    file.journal._kept["labelled"] = Counted(file.journal._kept["labelled"])
    counted = memory._labels, file._encoded, file._labels.sections, file.journal._kept["labelled"]
    session.learn({"001": 1})
    session.correct("earlier 7", 2)
    memory.forget("earlier 8")
    for one in counted:
        one.touched = 0
    assert changed_sections(session, path) == (
        ["labelled/earlier 8", "pending/001"],
        ["episodes/a", "events", "factors/a", "labelled/001", "labelled/earlier 7"],
    )
    # Three of them changed, and each is looked at a few times, however many there are.
    assert max(one.touched for one in counted) <= 3 * 4
    again = session_on(tiny, strategies=[Strategy("a")], limits=session.limits)
    again.restore(path)
    assert list(dict.items(memory._labels)) == list(again.labelled.items())


def by_family(content):
    """Return a file's sections, the order of which is kept within a family."""
    families = {}
    for name, section in journals.read_journal(content, "larc live session")[1].items():
        families.setdefault(name.partition("/")[0], []).append((name, section))
    return families


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *("remember", "again", "again", "replace", "replace", "forget", "save", "save"),
                *("no JSON", "no space", "elsewhere", "content", "restore"),
            ]
        ),
        st.integers(0, 5),
    ),
    min_size=30,
    max_size=50,
)


@given(CHANGES, st.sampled_from([60, 300, 2**18]), st.integers(0, 20))
@settings(max_examples=60, deadline=None)
def test_a_file_is_what_all_of_it_written_at_once_would_be(tmp_path_factory, changes, limit, known):
    """Labels come, are corrected and forgotten; saves fail or go elsewhere in between."""
    substrate, directory = larc.load_substrate("tiny"), tmp_path_factory.mktemp("sessions")
    path, limits = directory / "session", SessionLimits(labelled=limit)

    def fresh():
        return session_on(substrate, strategies=[Strategy("a")], limits=limits)

    def whole(number):
        another = copy(session)  # with a memory that nobody follows
        another.labelled = LabelMemory(limit)
        for name, past in session.labelled.items():
            another.labelled.remember(name, past)
        return SessionFile().content(another, {"notes": json_part("notes", number)})

    session = fresh()
    for number in range(known):
        session.labelled.remember(f"earlier {number}", PastLabel(("up", "down"), 0))
    session.save(path, None)
    for number, (change, which) in enumerate(changes):
        names = list(session.labelled)
        name = names[which % len(names)] if names else ""
        if change == "remember":
            session.labelled.remember(f"{number}", PastLabel(("up", "down"), number % 2))
        elif change == "again" and names:
            session.labelled.remember(name, session.labelled[name])
        elif change == "replace" and names:
            session.labelled.replace(name, session.labelled[name].corrected(number % 2))
        elif change == "forget":
            session.labelled.forget(name)
        elif change == "save":
            session.save(path, number)
            assert by_family(path.read_bytes()) == by_family(whole(number))
        elif change == "elsewhere":
            session.save(directory / "elsewhere", number)
            assert by_family((directory / "elsewhere").read_bytes()) == by_family(whole(number))
        elif change == "content":
            notes = {"notes": json_part("notes", number)}
            assert session.file.content(session, notes) == whole(number)
        elif change == "restore":
            session = fresh()
            session.restore(path)
        else:
            before = path.read_bytes()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(os, "write", no_space)
                patch.setattr(journals, "atomic_write", no_space)
                with pytest.raises((larc.LarcError, OSError)):
                    session.save(path, {1} if change == "no JSON" else number)
            assert path.read_bytes() == before


def no_space(*given):
    raise OSError(28, "No space left on device")


BOTH = """
import sys, larc
from tests.stream.test_controller import SLEEPY, controller_on, run
from tests.stream.test_session import session_on
session = session_on(larc.load_substrate("tiny"))
session.restore(sys.argv[1])
print("restored", flush=True)
sys.stdin.readline()
session.learn({sys.argv[2]: "up"})
try:
    session.save(sys.argv[1])
except larc.LarcError as refusal:
    sys.exit(f"refused: {refusal}")
"""


def test_of_two_processes_on_one_file_the_second_is_told_and_no_label_is_lost(tiny, tmp_path):
    path = tmp_path / "session"
    session = session_on(tiny)
    session.ask(questions_of(STREAM[:2]))
    session.save(path)
    command = [sys.executable, "-c", BOTH, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    both = [subprocess.Popen([*command, name], text=True, **pipes) for name in ("000", "001")]
    for process in both:
        assert process.stdout.readline() == "restored\n"
    first, second = (process.communicate("go\n", timeout=120)[1] for process in both)
    assert [process.returncode for process in both] == [0, 1]
    assert not first
    assert "saved by another session meanwhile; restore it" in second
    again = session_on(tiny)
    again.restore(path)
    assert (list(again.labelled), list(again.pending)) == (["000"], ["001"])


def test_notes_that_are_no_json_are_refused_and_the_file_stays(tiny, tmp_path):
    session = session_on(tiny)
    session.save(tmp_path / "session", 1)
    with pytest.raises(larc.LarcError, match="cannot be saved as JSON"):
        session.save(tmp_path / "session", {1, 2})
    assert session_on(tiny).restore(tmp_path / "session") == 1
    for wrong in (None, 7, "a\0b", tmp_path):
        with pytest.raises(larc.LarcError):
            session.save(wrong)
        with pytest.raises(larc.LarcError):
            session.restore(wrong)


def test_a_newer_file_is_refused(tiny, tmp_path):
    session_on(tiny).save(tmp_path / "session")
    content = journals.journal_content("larc live session, version 99", {})
    (tmp_path / "session").write_bytes(content)
    with pytest.raises(larc.LarcError, match="saved by a newer larc"):
        session_on(tiny).restore(tmp_path / "session")
