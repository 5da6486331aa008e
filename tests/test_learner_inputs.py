"""What episodes and learners are given: kept no longer than needed, refused before any work."""

import numpy as np
import pytest
import torch

import larc
from larc.substrate.frozen import Substrate
from larc.substrate.tiny import byte_tokenizer, random_llama
from tests.questions import CANDIDATES, PROMPTS, feedback, learner_on, random_factors


def test_a_substrate_is_let_go_with_everything_kept_for_it():
    import gc
    import weakref

    substrate = larc.load_substrate("tiny")
    learner_on(substrate, boundary=2).begin().read(PROMPTS[0], CANDIDATES)
    alive = weakref.ref(substrate)
    del substrate
    gc.collect()
    assert alive() is None


def test_refused_prompts_are_not_kept(tiny):
    kept = len(tiny.questions)
    with pytest.raises(larc.LarcError, match="over the limit"):
        learner_on(tiny).begin().read("x" * 100_000, ["a", "b"])
    assert len(tiny.questions) == kept


@pytest.mark.parametrize("seed", [-1, None, 1.5, "7"])
def test_seeds_that_give_no_stream_are_refused(tiny, seed):
    with pytest.raises(larc.LarcError, match="whole number, 0 or more"):
        learner_on(tiny).begin(seed=seed)
    with pytest.raises(larc.LarcError, match="whole number, 0 or more"):
        larc.SlowState.initial(tiny, seed=seed)


def test_numpy_seeds_are_numbers_too(tiny, tmp_path):
    learner = learner_on(tiny)
    learner.begin(seed=np.int64(7)).save(tmp_path / "episode")
    assert learner.resume(tmp_path / "episode").seed == 7


@pytest.mark.parametrize("bad", [None, "feedback", 3, [None]])
def test_feedback_that_is_none_is_refused(tiny, bad):
    with pytest.raises(larc.LarcError, match="give CandidateLosses or a Label"):
        learner_on(tiny).begin().update(bad)


@pytest.mark.parametrize("index", [1.0, 0.5, True, None, "1"])
def test_label_indices_are_whole_numbers(index):
    with pytest.raises(larc.LarcError, match="names no candidate"):
        larc.Label("q", ["a", "b"], index)


@pytest.mark.parametrize(
    "make",
    [
        lambda c: larc.CandidateLosses("q", c, [0, 1]),
        lambda c: larc.Label("q", c, 0),
        lambda c: larc.Task("q", c, support=[0, 1]),
    ],
)
@pytest.mark.parametrize("candidates", ["ab", [], ["a", "a"], ["a", ""], [1, 2], None])
def test_candidates_are_checked_wherever_they_are_given(make, candidates):
    with pytest.raises(larc.LarcError):
        make(candidates)


@pytest.mark.parametrize("losses", [None, ["a", "b"], 3])
def test_losses_that_are_no_numbers_are_refused(losses):
    with pytest.raises(larc.LarcError, match=r"not a list of numbers|a finite number"):
        larc.CandidateLosses("q", ["a", "b"], losses)


def test_rules_of_ones_own_plug_in_and_resume(tiny, tmp_path):
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Decayed:
        step_sizes: tuple[float, ...] = (0.2, 0.1)

        def step(self, objective, factors, *, differentiable=False):
            return larc.SGD(self.step_sizes[0]).step(objective, factors)

    learner = learner_on(tiny, rule=Decayed())
    episode = learner.begin()
    episode.update(feedback())
    episode.save(tmp_path / "episode")
    assert learner.resume(tmp_path / "episode").factors.equal(episode.factors)

    class Nameless:
        def step(self, objective, factors, *, differentiable=False):
            raise AssertionError

    with pytest.raises(larc.LarcError, match="no dataclass"):
        learner_on(tiny, rule=Nameless())


def test_a_question_longer_than_the_model_is_refused():
    substrate = Substrate("short", random_llama(), byte_tokenizer())
    substrate.model.config.max_position_embeddings = 64
    with pytest.raises(larc.LarcError, match="the prompt and a candidate take"):
        learner_on(substrate).begin().read("x" * 100, ["a", "b"])


def test_a_resume_with_factors_of_another_rank_is_refused(tiny, tmp_path):
    from larc.io.states import load_state, save_state

    learner = learner_on(tiny)
    learner.begin().save(tmp_path / "episode")
    _, facts = load_state(tmp_path / "episode", "larc episode, version 1")
    tensors = {"A": torch.zeros(2, 32), "B": torch.zeros(32, 2)}
    save_state(tmp_path / "episode", "larc episode, version 1", tensors, facts)
    with pytest.raises(larc.LarcError, match="rank 2 and width 32"):
        learner.resume(tmp_path / "episode")


def test_the_version_is_part_of_a_slow_states_name(tiny):
    slow = larc.SlowState.initial(tiny, seed=1)
    assert slow.advanced(slow.factors).digest != slow.digest
    with pytest.raises(larc.LarcError, match="cannot follow"):
        slow.advanced(random_factors(tiny, 1, rank=2))
    with pytest.raises(larc.LarcError, match="not finite"):
        slow.advanced(slow.factors.map(lambda t: t + float("nan")))
