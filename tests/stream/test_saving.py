"""Saved sessions: older versions are read, other sessions refused, and nothing is half restored."""

from pathlib import Path

import numpy as np
import pytest
import torch

import larc
from larc.io.states import load_state, pack_state
from larc.stream import PlainPrompter
from larc.stream.session import SESSION_FILE, SESSION_UPGRADES, Session
from tests.stream.test_session import PATHS, STREAM, events, replay, session_on

# Saved after the first four events of STREAM, by the code of commit 4526cff.
VERSION_1 = Path(__file__).parent / "data" / "session-version-1.safetensors"


def test_version_1_is_read_and_gone_on_with(tiny):
    whole = replay(session_on(tiny), STREAM)
    session = session_on(tiny)
    assert session.restore(VERSION_1) == {"done": 4}
    assert session.events == 4
    assert session.pending == {"002": {"plain": "Question 2: "}}
    assert session.episodes["carry"].step == 1
    rest = replay(session, STREAM, skip=4)
    for name, said in rest.items():
        for path, policy in said.items():
            # The file may be of another machine, whose sums differ in their last bits.
            np.testing.assert_allclose(policy, whole[name][path], atol=1e-5)
    assert list(rest) == ["003", "004", "005", "006"]


def test_what_version_1_did_not_say_is_not_compared_and_version_2_says_it(tiny, tmp_path):
    _, facts = load_state(VERSION_1, SESSION_FILE, SESSION_UPGRADES)
    assert facts["rule"] is None
    session_on(tiny).save(tmp_path / "session")
    other = larc.Learner(tiny, session_on(tiny).learner.slow, larc.SGD(0.25))
    session = Session(other, PATHS, PlainPrompter(), seed=1)
    session.restore(VERSION_1)
    with pytest.raises(larc.LarcError, match=r"update rule .*0\.5.*not SGD"):
        session.restore(tmp_path / "session")


def test_a_resumed_session_differs_from_a_cold_one(tiny, tmp_path):
    first = session_on(tiny)
    for event in events(STREAM)[:4]:
        first.ask(event.items) if type(event).__name__ == "Ask" else first.arrive(event.items)
    first.save(tmp_path / "session")
    resumed, cold = session_on(tiny), session_on(tiny)
    resumed.restore(tmp_path / "session")
    last = STREAM[-1:]
    assert not np.array_equal(resumed.ask(last)["carry"], cold.ask(last)["carry"])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda facts: facts.pop("pending"),
        lambda facts: facts.update(pending=[1]),
        lambda facts: facts.update(events="many"),
        lambda facts: facts["episodes"]["sham"].pop("stream"),
        lambda facts: facts["episodes"]["sham"].update(stream={"bit_generator": "MT19937"}),
        lambda facts: facts["episodes"]["biased"].update(step=None),
        lambda facts: facts["episodes"].pop("biased"),
        lambda facts: facts.update(paths=None),
        lambda facts: facts.pop("rule"),
    ],
)
def test_a_whole_file_that_is_no_session_changes_nothing(tiny, tmp_path, spoil):
    saved = session_on(tiny)
    replay(saved, STREAM)
    saved.save(tmp_path / "session")
    tensors, facts = load_state(tmp_path / "session", SESSION_FILE)
    spoil(facts)
    (tmp_path / "session").write_bytes(pack_state(SESSION_FILE, tensors, facts))
    session = session_on(tiny)
    with pytest.raises(larc.LarcError):
        session.restore(tmp_path / "session")
    assert (session.pending, session.events) == ({}, 0)
    for episode in session.episodes.values():
        assert episode.step == 0
        assert episode.factors.equal(session.learner.slow.factors)


def test_factors_of_another_shape_are_refused(tiny, tmp_path):
    session_on(tiny).save(tmp_path / "session")
    tensors, facts = load_state(tmp_path / "session", SESSION_FILE)
    tensors["carry.A"], tensors["carry.B"] = torch.zeros(2, 32), torch.zeros(32, 2)
    (tmp_path / "session").write_bytes(pack_state(SESSION_FILE, tensors, facts))
    with pytest.raises(larc.LarcError, match="rank 2"):
        session_on(tiny).restore(tmp_path / "session")
