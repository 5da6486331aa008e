"""Tasks of many questions: their outer gradients from their definition, saving, evaluation."""

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import larc
from larc.questions import ask
from larc.residual import Factors
from larc.scoring import energies
from larc.training.tasks import Trainer, TrainingSettings
from tests.questions import start

KINDS = ("billing", "fault", "praise")


def customers(count=4):
    """Customers whose labels follow a shift of their own; they differ in how much they sent."""

    def label(customer, ticket):
        prompt = f"ticket {ticket} of someone: "
        return larc.Label(prompt, KINDS, (customer + ticket) % 3)

    return [
        larc.Task(
            support=[
                [label(customer, ticket) for ticket in range(3 * batch, 3 * batch + 1 + batch % 2)]
                for batch in range(1 + customer % 3)
            ],
            query=[
                label(customer, 20),
                larc.CandidateLosses("and then: ", KINDS[:2], [0.0, 0.25 + customer / 8]),
            ],
            group=f"customer {customer}",
        )
        for customer in range(count)
    ]


def outer_by_torch_func(substrate, slow, tasks, objective, eta, steps):
    """The outer gradient from its definition, with torch.func and no code of the trainer."""

    def mean_loss(pieces, A, B):
        losses = []
        for piece in pieces:
            question = ask(substrate, piece.prompt, piece.candidates)
            (scores,) = energies(substrate, [question], Factors(A, B), slow.boundary)
            if isinstance(piece, larc.Label):
                losses.append(-scores.log_softmax(-1)[piece.index])
            else:
                losses.append(scores.softmax(-1) @ torch.tensor(piece.losses))
        return sum(losses) / len(losses)

    def query_after(A, B, task):
        a, b = A, B
        for batch in task.support:
            inner = torch.func.grad(lambda a, b, own=batch: mean_loss(own, a, b), argnums=(0, 1))
            for _ in range(steps):
                slope_a, slope_b = inner(a, b)
                a, b = a - eta * slope_a, b - eta * slope_b
        if objective == "static":
            a, b = A, B
        if objective == "adapted":
            a, b = A + (a - A).detach(), B + (b - B).detach()
        return mean_loss(task.query, a, b)

    def mean(A, B):
        return sum(query_after(A, B, task) for task in tasks) / len(tasks)

    rho = (slow.factors.A, slow.factors.B)
    with sdpa_kernel(SDPBackend.MATH):
        return torch.func.grad(mean, argnums=(0, 1))(*rho), mean(*rho)


@pytest.mark.parametrize("objective", ["static", "adapted", "exact"])
def test_outer_gradients_are_what_they_are_defined_to_be(tiny, objective):
    tasks, slow = customers(3), start(tiny, boundary=1)
    settings = TrainingSettings(objective, inner_steps=1, rule=larc.SGD(0.3))
    loss, gradient = Trainer(tiny, slow, tasks, settings)._outer_gradient(tasks)
    (A, B), expected = outer_by_torch_func(tiny, slow, tasks, objective, 0.3, 1)
    assert loss == pytest.approx(float(expected.detach()), abs=1e-6)
    # Fused and plain attention round differently: 1e-5 of the largest entry, through the steps.
    torch.testing.assert_close(gradient.A, A, atol=3e-5 * float(A.abs().max()), rtol=1e-4)
    torch.testing.assert_close(gradient.B, B, atol=3e-5 * float(B.abs().max()), rtol=1e-4)


def test_a_task_of_one_prompt_written_either_way_trains_to_the_same_bits(tiny):
    kinds, losses = ["yes", "no"], ([0, 1], [1, 0])
    plain = [larc.Task(f"{n}? ", kinds, losses[n % 2], losses[n % 2]) for n in range(4)]
    spelled = [
        larc.Task(
            support=[[larc.CandidateLosses(task.prompt, kinds, task.support)]],
            query=[larc.CandidateLosses(task.prompt, kinds, task.query)],
        )
        for task in plain
    ]
    one, other = (larc.train(tiny, tasks, updates=3, seed=1) for tasks in (plain, spelled))
    assert one.factors.equal(other.factors)


def test_training_resumes_to_the_same_bytes(tiny, tmp_path):
    whole = larc.train(tiny, customers(), updates=5, seed=1)
    path = tmp_path / "training"
    larc.train(tiny, customers(), updates=2, seed=1, checkpoint=path)
    resumed = larc.train(tiny, customers(), updates=5, seed=1, checkpoint=path)
    assert resumed.to_bytes() == whole.to_bytes()
    changed = customers()
    changed[0] = larc.Task(support=changed[0].support, query=changed[1].query)
    with pytest.raises(larc.LarcError, match="other tasks"):
        larc.train(tiny, changed, updates=6, seed=1, checkpoint=path)


def test_evaluation_reads_every_question_in_every_cell(tiny):
    tasks, slow = customers(6), start(tiny)
    rule = larc.SGD(1.0)
    report = larc.evaluate(tiny, slow, tasks, seed=3, rule=rule, inner_steps=2, resamples=200)
    learner = larc.Learner(tiny, slow, rule)
    kept, reset = [], []
    for number, task in enumerate(tasks):
        episode, fresh = learner.begin(), learner.begin()
        for batch in task.support:
            for _ in range(2):
                episode.update(batch)
        risks = []
        for place, one in enumerate(task.query):
            policy = episode.read(one.prompt, one.candidates).double().numpy()
            said = report.predictions.real_keep[number][place]
            np.testing.assert_allclose(said, policy, atol=1e-5)  # batches round differently
            risks.append(
                [policy @ one.losses, fresh.read(one.prompt, one.candidates).numpy() @ one.losses]
            )
        kept.append(np.mean(risks, axis=0)[0])
        reset.append(np.mean(risks, axis=0)[1])
    assert report.risk["real_keep"] == pytest.approx(np.mean(kept), abs=1e-5)
    assert pytest.approx(np.mean(reset) - np.mean(kept), abs=1e-5) == report.G
    assert report.groups == 6
    closed = larc.predict(
        tiny, slow, [task.closed() for task in tasks], seed=3, rule=rule, inner_steps=2
    )
    for one, other in zip(closed.sham_keep, report.predictions.sham_keep, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_offsets_of_a_label_are_part_of_the_answer(tiny):
    offsets = (0.0, 3.0, 0.0)
    ask_ = [larc.Label("x: ", KINDS, 1, offsets)]
    task = larc.Task(support=[[larc.Label("y: ", KINDS, 0)]], query=ask_)
    slow = start(tiny)
    for one in (task, task.closed()):
        (said,) = larc.predict(tiny, slow, [one], seed=1).real_reset
        plain = larc.Learner(tiny, slow).begin().read("x: ", KINDS).log() + torch.tensor(offsets)
        np.testing.assert_allclose(said[0], plain.softmax(-1).numpy(), atol=1e-5)
