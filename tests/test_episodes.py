"""Episodes by themselves: private storage, saving, resuming, reset."""

import pytest
import torch

import larc
from larc.substrate.frozen import Substrate
from larc.substrate.tiny import byte_tokenizer, random_llama
from tests.questions import CANDIDATES, PROMPTS, feedback, learner_on, random_factors


@pytest.mark.parametrize("updated", [False, True])
def test_no_two_states_share_storage(tiny, updated):
    learner = learner_on(tiny)
    episodes = [learner.begin() for _ in range(3)]
    if updated:
        learner.update_many([(episode, feedback()) for episode in episodes])
    places = [t.untyped_storage().data_ptr() for e in episodes for t in (e.factors.A, e.factors.B)]
    slow = learner.slow
    places += [
        t.untyped_storage().data_ptr()
        for t in (slow.factors.A, slow.factors.B, slow.origin.A, slow.origin.B)
    ]
    assert len(set(places)) == len(places)


def test_reset_returns_to_the_bound_version_even_after_training_moved_on(tiny):
    learner = learner_on(tiny)
    episode = learner.begin(seed=3)
    start = episode.read(PROMPTS[0], CANDIDATES)
    first = episode.stream.random()
    episode.update(feedback())
    learner.slow = learner.slow.advanced(random_factors(tiny, 9))
    assert learner.begin().slow_version == 1
    episode.reset()
    assert episode.slow_version == 0
    assert episode.step == 0
    assert episode.factors.equal(episode.slow.factors)
    assert torch.equal(episode.read(PROMPTS[0], CANDIDATES), start)
    assert episode.stream.random() == first


@pytest.mark.parametrize("boundary", [0, 2])
def test_resumed_equals_uninterrupted_and_differs_from_cold(tiny, tmp_path, boundary):
    learner = learner_on(tiny, boundary=boundary)
    whole = learner.begin(seed=5)
    whole.update(feedback(0))
    whole.stream.random(3)
    whole.save(tmp_path / "episode")
    whole.update(feedback(1))

    again = learner_on(larc.load_substrate("tiny"), boundary=boundary).resume(tmp_path / "episode")
    assert again.step == 1
    again.update(feedback(1))
    assert again.factors.equal(whole.factors)
    assert again.step == whole.step == 2
    assert again.stream.random() == whole.stream.random()
    assert torch.equal(again.read(PROMPTS[2], CANDIDATES), whole.read(PROMPTS[2], CANDIDATES))

    cold = learner.begin(seed=5)
    cold.update(feedback(1))
    assert not cold.factors.equal(whole.factors)
    again.reset()
    assert again.factors.equal(learner.slow.factors)


def test_resume_is_refused_against_anything_else(tiny, tmp_path):
    learner = learner_on(tiny)
    episode = learner.begin()
    episode.update(feedback())
    path = tmp_path / "episode"
    episode.save(path)
    other = Substrate("other", random_llama(seed=1), byte_tokenizer())
    moved_on = larc.Learner(tiny, learner.slow.advanced(learner.slow.factors))
    refusals = {
        "another substrate": learner_on(other),
        "another boundary": learner_on(tiny, boundary=1),
        "another slow version": moved_on,
        "another slow state": learner_on(tiny, seed=4),
        "another update rule": learner_on(tiny, rule=larc.SGD(0.2)),
    }
    for message, stranger in refusals.items():
        with pytest.raises(larc.LarcError, match=message):
            stranger.resume(path)
    with pytest.raises(larc.LarcError, match="another slow"):
        learner_on(tiny, rank=2).resume(path)


def test_a_damaged_or_foreign_episode_is_refused(tiny, tmp_path):
    learner = learner_on(tiny)
    path = tmp_path / "episode"
    learner.begin().save(path)
    content = path.read_bytes()
    for index in (3, 40, len(content) // 2, len(content) - 1):
        damaged = bytearray(content)
        damaged[index] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(larc.LarcError):
            learner.resume(path)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(larc.LarcError, match="damaged or foreign"):
        learner.resume(path)
    with pytest.raises(larc.LarcError, match="there is no file"):
        learner.resume(tmp_path / "nothing")


def test_a_save_that_fails_loses_nothing(tiny, tmp_path):
    learner = learner_on(tiny)
    episode = learner.begin()
    with pytest.raises(larc.LarcError, match="could not be written"):
        episode.save(tmp_path / "no" / "such" / "place")
    path = tmp_path / "episode"
    episode.save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["episode"]
