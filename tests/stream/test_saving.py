"""Saved sessions: older versions are read, other sessions refused, and nothing is half restored."""

from pathlib import Path

import numpy as np
import pytest
import torch

import larc
from larc.domains.ci.jobs import Observation
from larc.domains.ci.prompter import JobPrompter, job_question
from larc.residual import Factors
from larc.stream import PlainPrompter, Strategy
from larc.stream.question import questions_of
from larc.stream.session import Session
from larc.stream.session_file import load_session, pack_session
from tests.stream.test_session import STRATEGIES, STREAM, events, follow, replay, session_on

DATA = Path(__file__).parent / "data"
# Saved after the first four events of STREAM, by the code of commits 4526cff and 794cef4.
VERSION_1 = DATA / "session-version-1.safetensors"
VERSION_2 = DATA / "session-version-2.safetensors"
OLDER = pytest.mark.parametrize("path", [VERSION_1, VERSION_2], ids=["1", "2"])


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


@OLDER
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
    for path in (VERSION_2, tmp_path / "session"):
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
