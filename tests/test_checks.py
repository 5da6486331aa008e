"""What the public API is given: one sentence for what cannot be, before anything is done."""

import math

import pytest
import torch

import larc
from larc.training.labels import LabelTrainer

TASK = larc.Task("Is 3 even? ", ["yes", "no"], [1, 0], [1, 0], group="3")


def slow(tiny):
    return larc.SlowState.initial(tiny, seed=1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: larc.SGD(True), "step size is True"),
        (lambda: larc.SGD("0.1"), "step size is '0.1'"),
        (lambda: larc.SGD(None), "step size is None"),
        (lambda: larc.SGD(math.nan), "step size is nan"),
        (lambda: larc.SGD(10**400), "step size is 1000"),
        (lambda: larc.Descent(steps=True), "steps is True"),
        (lambda: larc.Descent(tries=1.0), "tries is 1.0"),
        (lambda: larc.Descent(length=math.inf), "length is inf"),
        (lambda: larc.Descent(tolerance=math.nan), "tolerance is nan"),
        (lambda: larc.Descent(radius="big"), "radius is 'big'"),
        (lambda: larc.Limits(-1, 32), "limit of a prompt is -1"),
        (lambda: larc.Limits(384, "a"), "limit of a candidate is 'a'"),
        (lambda: larc.Limits(384, 1.5), "limit of a candidate is 1.5"),
        (lambda: larc.AdamW(learning_rate="fast"), "learning_rate of AdamW is 'fast'"),
        (lambda: larc.AdamW(beta1=1), "beta1 of AdamW is 1"),
        (lambda: larc.TrainingSettings(batch=1.5), "batch is 1.5"),
        (lambda: larc.TrainingSettings(objective=["static"]), "is unknown"),
        (lambda: larc.TrainingSettings(rule="sgd"), "no dataclass"),
        (lambda: larc.TrainingSettings(outer="adam"), "give a AdamW"),
        (lambda: larc.Task(b"x", ["a"], [0]), "prompt of a task is no text"),
        (lambda: larc.Task("x", b"ab", [0, 1]), "one text"),
        (lambda: larc.Task("x", ["a"], [0], group=7), "group of a task is no text"),
        (lambda: larc.Task("x", ["a"], [10**400]), "give a finite number"),
        (lambda: larc.Task("x", ["a"], "0"), "not a list of numbers"),
        (lambda: larc.Label("x", ["a"], 0, offsets=7), "offsets 7 are not a list"),
        (lambda: larc.Label("x", ["a"], 0, offsets=[math.nan]), "finite number"),
        (lambda: larc.Label(None, ["a"], 0), "the prompt is no text"),
    ],
)
def test_settings_and_feedback_are_checked(make, message):
    with pytest.raises(larc.LarcError, match=message):
        make()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rank": 0}, "rank of a residual is 0"),
        ({"rank": 1.5}, "rank of a residual is 1.5"),
        ({"boundary": -1}, "boundary -1 was asked for"),
        ({"boundary": 9}, "boundary 9 was asked for"),
        ({"updates": 1.5}, "updates is 1.5"),
        ({"updates": -1}, "updates is -1"),
        ({"batch": True}, "batch is True"),
        ({"inner_steps": "2"}, "inner_steps is '2'"),
        ({"checkpoint_every": 0}, "checkpoint_every is 0"),
        ({"checkpoint": 3}, "the path is 3"),
        ({"on_update": 3}, "give a function"),
        ({"rule": 0}, "no dataclass"),
        ({"outer": 0}, "outer is 0"),
        ({"limits": (1, 2)}, r"limits is \(1, 2\)"),
        ({"slow": "state"}, "slow is 'state'"),
        ({"seed": "x"}, "seed is 'x'"),
    ],
)
def test_training_is_checked_before_it_starts(tiny, given, message):
    with pytest.raises(larc.LarcError, match=message):
        larc.train(tiny, [TASK], **{"updates": 1, "seed": 1, **given})


@pytest.mark.parametrize("tasks", [None, 7, "tasks", {"a": TASK}, [TASK, "task"], [None]])
def test_tasks_are_tasks(tiny, tasks):
    for use in (
        lambda: larc.train(tiny, tasks, updates=1, seed=1),
        lambda: larc.evaluate(tiny, slow(tiny), tasks, seed=1),
        lambda: larc.predict(tiny, slow(tiny), tasks, seed=1),
    ):
        with pytest.raises(larc.LarcError, match=r"the tasks are|give a Task"):
            use()


@pytest.mark.parametrize(
    "given", [{"seed": None}, {"inner_steps": -1}, {"resamples": 0}, {"rule": 7}, {"limits": 7}]
)
def test_evaluation_is_checked(tiny, given):
    with pytest.raises(larc.LarcError):
        larc.evaluate(tiny, slow(tiny), [TASK], **{"seed": 1, **given})
    with pytest.raises(larc.LarcError, match="give a Substrate"):
        larc.evaluate("tiny", slow(tiny), [TASK], seed=1)
    with pytest.raises(larc.LarcError, match="give a SlowState"):
        larc.evaluate(tiny, "slow", [TASK], seed=1)


@pytest.mark.parametrize(
    ("labels", "weights"), [([], []), ([7], [1]), (7, [1]), (None, [-1.0]), (None, [0]), (None, 7)]
)
def test_labels_and_weights_are_checked(tiny, labels, weights):
    labels = [larc.Label("q", ["a", "b"], 0)] if labels is None else labels
    with pytest.raises(larc.LarcError):
        LabelTrainer(tiny, slow(tiny), labels, weights)


@pytest.mark.parametrize("given", ["x", [7], [("a", "b")], {"a": 1}, None, [(1, 2, 3)]])
def test_requests_are_checked(tiny, given):
    learner = larc.Learner(tiny, slow(tiny))
    for use in (learner.read_many, learner.update_many):
        with pytest.raises(larc.LarcError):
            use(given)
    with pytest.raises(larc.LarcError), learner.active(given):
        pass


def test_things_say_what_they_are(tiny):
    state = slow(tiny)
    learner = larc.Learner(tiny, state)
    assert repr(state) == (
        f"<SlowState {state.digest[:12]}, rank 4, width 32, at the input embeddings, untrained, "
        "seed 1>"
    )
    assert repr(learner) == f"<Learner on 'tiny', {state!r}, SGD(step_size=0.1)>"
    episode = learner.begin(seed=7)
    episode.update(larc.Label("q", ["a", "b"], 0))
    assert repr(episode) == "<Episode, seed 7, 1 update from slow version 0, rank 4>"
    assert repr(state.factors) == "Factors(rank=4, width=32)"
    assert repr(larc.Factors(torch.ones(3, 2, 8), torch.ones(3, 8, 2))) == (
        "Factors(rank=2, width=8, stacked=3)"
    )
