"""Slow training through proposals: its gradient, its checkpoints, and what is refused."""

import pytest
import torch

import larc
from larc.domains.programs.synthesis import build_problems
from larc.errors import LarcError
from larc.objectives import FeedbackObjective
from larc.residual import Factors
from larc.training.proposals import ProposalTrainer
from larc.training.tasks import TrainingSettings

SEARCH = larc.ImproveSettings(n=3, max_tokens=48, rounds=2)
LIMITS = larc.Limits(384, 48)


def tasks(count=3):
    problems = build_problems("training", 2, 2, held_out=False)[:count]
    return [
        larc.ProposalTask(p.prompt, p.judge(), p.judge(), p.name, [p.answer], larc.Grammar(p.rules))
        for p in problems
    ]


def train(substrate, updates=3, given=None, **changed):
    how = {"proposals": SEARCH, "rule": larc.SGD(1.0), "seed": 1, "limits": LIMITS, **changed}
    return larc.train(substrate, tasks() if given is None else given, updates=updates, **how)


def trainer(substrate, **changed):
    slow = larc.SlowState.initial(substrate, seed=1)
    how = TrainingSettings(rule=larc.SGD(1.0), seed=1, **changed)
    return ProposalTrainer(substrate, slow, tasks(), how, SEARCH, LIMITS)


@pytest.mark.parametrize("objective", ["adapted", "static"])
def test_the_gradient_is_that_of_the_query_at_the_state_it_is_read_at(tiny, objective):
    one = trainer(tiny, batch=2, objective=objective)
    loss, gradient = one.batch_gradient()
    seen = []

    def keep(searches):
        seen.extend(searches)
        return searches

    searched = one._searched
    one._searched = lambda chosen: keep(searched(chosen))
    assert one.batch_gradient()[0] == loss  # nothing else decides what is written
    total, slopes = 0.0, []
    for search in seen:
        (task,) = [task for task in one.tasks if task.prompt == search.prompt]
        texts = list(dict.fromkeys([*task.answers, *(j.text for j in search.judged)]))
        assert len(search.judged) == 6
        piece = larc.CandidateLosses(task.prompt, texts, task.query(texts))
        factors = search.episode.factors if objective == "adapted" else one.slow.factors
        objective_of = FeedbackObjective.of(tiny, 0, [[piece]], LIMITS)
        losses, slope = objective_of.gradients(Factors.stack([factors]))
        total += float(losses) / 2
        slopes.append(slope)
    assert loss == pytest.approx(total, abs=1e-6)
    # Rows of one batch are padded together: the same sums, rounded otherwise.
    mean = (slopes[0].B[0] + slopes[1].B[0]) / 2
    assert torch.allclose(gradient.B, mean, atol=1e-6)


def test_a_stopped_training_resumes_to_the_same_bits(tiny, tmp_path):
    whole = train(tiny, 4)
    file = tmp_path / "training"

    def stop(update, loss):
        if update == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(tiny, 4, checkpoint=file, checkpoint_every=1, on_update=stop)
    assert train(tiny, 4, checkpoint=file).digest == whole.digest
    with pytest.raises(LarcError, match="other proposals"):
        train(tiny, 4, checkpoint=file, proposals=larc.ImproveSettings(n=2, rounds=1))


def test_training_lowers_the_query_loss(tiny):
    losses = []
    train(
        tiny,
        30,
        given=tasks(1),
        batch=1,
        outer=larc.AdamW(learning_rate=2e-2),
        on_update=lambda update, loss: losses.append(loss),
    )
    assert sum(losses[-5:]) < sum(losses[:5])


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"objective": "exact"}, "cannot be differentiated"),
        ({"step_rate": 0.1}, "without a step rate"),
        ({"given": []}, "at least one"),
        ({"given": [larc.Task("x", ["a", "b"], [0, 1], [0, 1])]}, "needs ProposalTasks"),
        ({"given": [*tasks(1), *tasks(1)]}, "same name"),
    ],
)
def test_what_cannot_be_trained_is_refused(tiny, changed, sentence):
    with pytest.raises(LarcError, match=sentence):
        train(tiny, **changed)
