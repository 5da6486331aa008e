import dataclasses
import math

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import larc
from larc.domains.programs import build_episodes, split_groups, to_task
from larc.feedback import expected_risk
from larc.questions import ask
from larc.residual import Factors
from larc.scoring import energies
from larc.training.base import AdamW, batch_indices
from larc.training.tasks import Trainer, TrainingSettings
from tests.questions import random_factors, small_tasks, start


def indices(trainer):
    settings = trainer.settings
    return batch_indices(len(trainer.tasks), settings.batch, trainer.updates, settings.seed)


def risk(substrate, task, losses, boundary):
    question = ask(substrate, task.prompt, task.candidates)

    def of(A, B):
        return expected_risk(energies(substrate, [question], Factors(A, B), boundary)[0], losses)

    return of


def outer_gradient_by_torch_func(substrate, slow, tasks, objective, eta, steps):
    """The outer gradient from its definition, with torch.func and no code of the trainer."""
    rho = (slow.factors.A, slow.factors.B)

    def query_after(A, B, task):
        inner = torch.func.grad(risk(substrate, task, task.support, slow.boundary), argnums=(0, 1))
        a, b = A, B
        for _ in range(steps):
            slope_a, slope_b = inner(a, b)
            a, b = a - eta * slope_a, b - eta * slope_b
        if objective == "static":
            a, b = A, B
        if objective == "adapted":  # rho + stop_gradient(phi - rho)
            a, b = A + (a - A).detach(), B + (b - B).detach()
        return risk(substrate, task, task.query, slow.boundary)(a, b)

    def mean(A, B):
        return sum(query_after(A, B, task) for task in tasks) / len(tasks)

    with sdpa_kernel(SDPBackend.MATH):
        return torch.func.grad(mean, argnums=(0, 1))(*rho), mean(*rho)


@pytest.mark.parametrize("boundary", [0, 2])
@pytest.mark.parametrize("objective", ["static", "adapted", "exact"])
def test_outer_gradients_are_what_they_are_defined_to_be(tiny, objective, boundary):
    tasks, slow = small_tasks(2), start(tiny, boundary=boundary)
    settings = TrainingSettings(objective, inner_steps=2, rule=larc.SGD(0.5))
    loss, gradient = Trainer(tiny, slow, tasks, settings)._outer_gradient(tasks)
    (A, B), expected = outer_gradient_by_torch_func(tiny, slow, tasks, objective, 0.5, 2)
    assert loss == pytest.approx(float(expected.detach()), abs=1e-6)
    # Fused and plain attention round differently: 1e-5 of the largest entry, through two steps.
    torch.testing.assert_close(gradient.A, A, atol=2e-5 * float(A.abs().max()), rtol=1e-4)
    torch.testing.assert_close(gradient.B, B, atol=2e-5 * float(B.abs().max()), rtol=1e-4)


def test_the_three_objectives_really_differ(tiny):
    tasks, slow = small_tasks(2), start(tiny)
    gradients = {}
    for objective in ("static", "adapted", "exact"):
        settings = TrainingSettings(objective, rule=larc.SGD(0.5))
        gradients[objective] = Trainer(tiny, slow, tasks, settings)._outer_gradient(tasks)
    static, adapted, exact = (gradients[o][1].B for o in ("static", "adapted", "exact"))
    scale = float(static.abs().max())
    assert float((static - adapted).abs().max()) > 1e-3 * scale
    assert float((adapted - exact).abs().max()) > 1e-3 * scale
    assert gradients["adapted"][0] == pytest.approx(gradients["exact"][0], abs=1e-6)
    assert gradients["static"][0] != pytest.approx(gradients["adapted"][0], abs=1e-6)


def test_higher_agrees_on_the_exact_gradient(tiny):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an old package on a new torch
        higher = pytest.importorskip("higher")
    task, slow = small_tasks(1)[0], start(tiny)

    class Residual(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.A = torch.nn.Parameter(slow.factors.A.clone())
            self.B = torch.nn.Parameter(slow.factors.B.clone())

        def forward(self, losses):
            return risk(tiny, task, losses, 0)(self.A, self.B)

    module = Residual()
    inner = torch.optim.SGD(module.parameters(), lr=0.5)
    with (
        sdpa_kernel(SDPBackend.MATH),
        higher.innerloop_ctx(module, inner, copy_initial_weights=False) as (fast, steps),
    ):
        for _ in range(2):
            steps.step(fast(task.support))
        fast(task.query).backward()
    settings = TrainingSettings("exact", batch=1, rule=larc.SGD(0.5))
    _, gradient = Trainer(tiny, slow, [task], settings)._outer_gradient([task])
    torch.testing.assert_close(gradient.A, module.A.grad, atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(gradient.B, module.B.grad, atol=1e-6, rtol=1e-4)


def test_the_slow_state_given_is_never_changed(tiny):
    slow = start(tiny)
    kept = slow.factors.copy()
    trained = larc.train(tiny, small_tasks(), slow=slow, updates=2, seed=1)
    assert slow.factors.equal(kept)
    assert slow.version == 0
    assert trained.version == 2
    assert trained.origin is slow.origin


def test_the_same_command_gives_the_same_bytes_and_another_seed_does_not(tiny):
    one, same, other = (larc.train(tiny, small_tasks(), updates=3, seed=s) for s in (1, 1, 2))
    assert one.factors.equal(same.factors)
    assert one.digest == same.digest
    assert not one.factors.equal(other.factors)


def test_arms_are_paired_in_start_and_order(tiny):
    trainers = [
        Trainer(
            tiny, larc.SlowState.initial(tiny, seed=7), small_tasks(), TrainingSettings(o, seed=7)
        )
        for o in ("static", "adapted")
    ]
    assert trainers[0].slow.factors.equal(trainers[1].slow.factors)
    for _ in range(4):
        assert indices(trainers[0]) == indices(trainers[1])
        for trainer in trainers:
            trainer.updates += 1


def test_the_counted_work_of_an_outer_update():
    calls = {}
    for objective in ("static", "adapted"):
        substrate = larc.load_substrate("tiny")
        larc.train(substrate, small_tasks(), objective=objective, updates=2, seed=1)
        calls[objective] = {
            key: entry.calls
            for key, entry in substrate.ledger.entries.items()
            if key[1] in ("mixer", "backward")
        }
    assert calls["adapted"] == {
        ("support", "mixer"): 4,
        ("support", "backward"): 4,
        ("query", "mixer"): 2,
        ("query", "backward"): 2,
    }
    # Both arms take the same two support steps; the static query is read with the first of them.
    assert calls["static"] == {
        ("support", "mixer"): 2,
        ("support", "backward"): 2,
        ("query", "mixer"): 2,
        ("query", "backward"): 4,
    }


@pytest.mark.parametrize("saved_at", [1, 3, 4])
def test_resumed_training_equals_uninterrupted_and_differs_from_cold(tiny, tmp_path, saved_at):
    path = tmp_path / "training"
    whole = larc.train(tiny, small_tasks(), updates=5, seed=1)
    larc.train(tiny, small_tasks(), updates=saved_at, seed=1, checkpoint=path)
    resumed = larc.train(
        larc.load_substrate("tiny"), small_tasks(), updates=5, seed=1, checkpoint=path
    )
    assert resumed.digest == whole.digest
    cold = larc.train(tiny, small_tasks(), updates=5 - saved_at, seed=1)
    assert not cold.factors.equal(whole.factors)
    assert resumed.origin.equal(whole.origin)


def test_a_finished_training_is_not_done_again(tiny, tmp_path):
    path = tmp_path / "training"
    first = larc.train(tiny, small_tasks(), updates=3, seed=1, checkpoint=path)
    seen = []
    again = larc.train(
        tiny, small_tasks(), updates=3, seed=1, checkpoint=path, on_update=lambda *a: seen.append(a)
    )
    assert again.digest == first.digest
    assert seen == []


def test_a_checkpoint_of_another_training_is_refused(tiny, tmp_path):
    path = tmp_path / "training"
    larc.train(tiny, small_tasks(), updates=1, seed=1, checkpoint=path)
    with pytest.raises(larc.LarcError, match="other settings"):
        larc.train(tiny, small_tasks(), updates=2, seed=2, checkpoint=path)
    with pytest.raises(larc.LarcError, match="other tasks"):
        larc.train(tiny, small_tasks(3), updates=2, seed=1, checkpoint=path)
    with pytest.raises(larc.LarcError, match="other boundary"):
        larc.train(tiny, small_tasks(), updates=2, seed=1, boundary=1, checkpoint=path)
    with pytest.raises(larc.LarcError, match="other rank"):
        larc.train(tiny, small_tasks(), updates=2, seed=1, rank=2, checkpoint=path)
    with pytest.raises(larc.LarcError, match="other start"):
        larc.train(tiny, small_tasks(), updates=2, seed=1, slow=start(tiny), checkpoint=path)
    with pytest.raises(larc.LarcError, match="past the 0 asked for"):
        larc.train(tiny, small_tasks(), updates=0, seed=1, checkpoint=path)


def test_bad_training_is_refused_before_any_work(tiny):
    calls = tiny.ledger.total("mixer").calls
    with pytest.raises(larc.LarcError, match="no tasks"):
        larc.train(tiny, [], updates=1, seed=1)
    with pytest.raises(larc.LarcError, match="no query losses"):
        larc.train(tiny, [larc.Task("q", ["a", "b"], support=[0, 1])], updates=1, seed=1)
    with pytest.raises(larc.LarcError, match="static, adapted, exact"):
        larc.train(tiny, small_tasks(), objective="best", updates=1, seed=1)
    with pytest.raises(larc.LarcError, match="leave them out"):
        larc.train(tiny, small_tasks(), slow=start(tiny), rank=8, updates=1, seed=1)
    with pytest.raises(larc.LarcError, match="no directory"):
        larc.train(tiny, small_tasks(), updates=1, seed=1, checkpoint="no/such/place/file")
    with pytest.raises(larc.LarcError, match="checkpoint_every"):
        larc.train(tiny, small_tasks(), updates=1, seed=1, checkpoint_every=0)
    long = larc.Task("q" * 999, ["a", "b"], support=[0, 1], query=[0, 1])
    with pytest.raises(larc.LarcError, match="over the limit"):
        larc.train(tiny, [*small_tasks(), long], updates=1, seed=1)
    assert tiny.ledger.total("mixer").calls == calls


def test_an_update_that_is_not_finite_is_not_made(tiny):
    wild = dataclasses.replace(start(tiny), factors=random_factors(tiny, 1, scale=1e25))
    trainer = Trainer(tiny, wild, small_tasks(), TrainingSettings())
    kept = trainer.slow
    with pytest.raises(larc.LarcError, match="not finite"):
        trainer.advance()
    assert trainer.slow is kept
    assert trainer.updates == 0


def test_training_has_the_papers_numbers():
    settings = TrainingSettings()
    assert settings.outer == AdamW(1e-3, 0.9, 0.999, 1e-8, 1.0)
    assert (settings.batch, settings.inner_steps, settings.rule) == (2, 2, larc.SGD(0.1))


def test_checkpointing_activations_trains_to_the_same_state():
    states = [
        larc.train(
            larc.load_substrate("tiny", checkpointing=on), small_tasks(), updates=2, seed=1
        ).factors
        for on in (False, True)
    ]
    assert states[0].equal(states[1])  # the same operations, done again


def test_slow_training_lowers_the_post_adaptation_loss(tiny):
    tasks = [
        to_task(episode, with_query=True) for episode in build_episodes(split_groups("preflight"))
    ]
    seen = []
    larc.train(
        tiny,
        tasks,
        updates=30,
        batch=4,
        rule=larc.SGD(1.0),
        outer=AdamW(learning_rate=0.02),
        seed=1,
        on_update=lambda _, loss: seen.append(loss),
    )
    assert sum(seen[-8:]) / 8 < sum(seen[:8]) / 8 - 0.02


@pytest.mark.smollm2
def test_one_outer_update_on_the_real_model(smollm2):
    tasks = [to_task(e, with_query=True) for e in build_episodes(split_groups("preflight")[:1])]
    trained = larc.train(smollm2, tasks, updates=1, seed=1, boundary=26)
    assert trained.version == 1
    assert float(trained.factors.B.abs().max()) > 0


# A step size that is learned ----------------------------------------------------------------------

LEARNED = TrainingSettings("adapted", rule=larc.SGD(0.1), step_rate=0.05, seed=1)


def query_after(substrate, slow, tasks, size, steps, share=1.0):
    """The mean query risk after steps of a size, going a share of the way: by episodes."""
    learner, total = larc.Learner(substrate, slow, rule=larc.SGD(size)), 0.0
    for task in tasks:
        episode = learner.begin()
        for _ in range(steps):
            episode.update(larc.CandidateLosses(task.prompt, task.candidates, task.support))
        moved = slow.factors.combine(episode.factors, lambda a, b: a + share * (b - a))
        total += float(risk(substrate, task, task.query, 0)(moved.A, moved.B))
    return total / len(tasks)


def test_a_learned_step_sizes_gradient_is_that_of_the_query(tiny):
    # One task: the terms of two may cancel, and say less.
    tasks, slow = small_tasks(1), start(tiny)
    one = dataclasses.replace(LEARNED, inner_steps=1, batch=1, rule=larc.SGD(0.5))
    _, gradient = Trainer(tiny, slow, tasks, one)._outer_gradient(tasks)
    # Of one step it is exact: the central difference of the query over the logarithm itself.
    sizes = [0.5 * math.exp(h) for h in (-0.1, 0.1)]
    less, more = (query_after(tiny, slow, tasks, size, 1) for size in sizes)
    # Rounding of float32 losses is 1e-7 over 0.2; the rest is the difference's second order.
    assert gradient.steps["log_step"] == pytest.approx((more - less) / 0.2, rel=0.01, abs=1e-6)
    assert abs(gradient.steps["log_step"]) > 1e-4
    # Of several, first-order: that of going further the same way.
    two = dataclasses.replace(one, inner_steps=2)
    loss, gradient = Trainer(tiny, slow, tasks, two)._outer_gradient(tasks)
    less, same, more = (query_after(tiny, slow, tasks, 0.5, 2, s) for s in (0.9, 1.0, 1.1))
    assert loss == pytest.approx(same, abs=1e-6)
    assert gradient.steps["log_step"] == pytest.approx((more - less) / 0.2, rel=0.01, abs=1e-6)


def test_learning_a_step_size_starts_as_a_training_of_that_size(tiny):
    tasks, slow = small_tasks(2), start(tiny)
    _, gradient = Trainer(tiny, slow, tasks, LEARNED)._outer_gradient(tasks)
    fixed = dataclasses.replace(LEARNED, step_rate=0.0)
    _, same = Trainer(tiny, slow, tasks, fixed)._outer_gradient(tasks)
    assert same.equal(Factors(gradient.A, gradient.B))


def test_a_learned_step_size_moves_against_its_gradient_at_its_rate(tiny):
    tasks, slow = small_tasks(1), start(tiny)
    trainer = Trainer(tiny, slow, tasks, dataclasses.replace(LEARNED, inner_steps=1, batch=1))
    shorter, longer = (query_after(tiny, slow, tasks, size, 1) for size in (0.05, 0.2))
    trainer.advance()
    # AdamW's first move is the whole rate, downhill.
    way = math.copysign(0.05, shorter - longer)
    assert trainer.slow.step_size == pytest.approx(0.1 * math.exp(way), rel=1e-5)


def test_a_step_size_that_runs_away_is_an_error(tiny):
    slow = dataclasses.replace(start(tiny), step_size=math.exp(79.9999))
    trainer = Trainer(tiny, slow, small_tasks(1), LEARNED)
    with pytest.raises(larc.LarcError, match="lower the"):
        trainer.advance()


def test_a_learned_step_size_is_saved_resumed_and_used(tiny, tmp_path):
    def learned(updates, checkpoint=None):
        return larc.train(
            tiny, small_tasks(), rule=larc.SGD(0.5), step_rate=0.05, updates=updates, seed=1,
            checkpoint=checkpoint,
        )  # fmt: skip

    path, whole = tmp_path / "training", learned(5)
    Trainer(tiny, start(tiny), small_tasks(), LEARNED).save(tmp_path / "first")
    unmoved = Trainer(tiny, start(tiny), small_tasks(), LEARNED)
    unmoved.restore(tmp_path / "first")
    assert unmoved.slow.digest == start(tiny).digest
    learned(3, path)
    resumed = learned(5, path)
    assert resumed.digest == whole.digest
    assert resumed.step_size == whole.step_size != 0.5
    again = larc.SlowState.from_bytes(whole.to_bytes())
    assert (again.step_size, again.digest) == (whole.step_size, whole.digest)
    assert again.digest != dataclasses.replace(again, step_size=0.5).digest
    assert larc.Learner(tiny, again).rule == larc.SGD(whole.step_size)
    assert larc.Learner(tiny, again, rule=larc.SGD(0.2)).rule == larc.SGD(0.2)
    again.save_pretrained(tmp_path / "given")
    assert larc.SlowState.from_pretrained(tmp_path / "given").digest == again.digest
    # Training goes on from the size learned; with a fixed one it is no longer the state's.
    on = larc.train(tiny, small_tasks(), slow=whole, rule=larc.SGD(0.5), step_rate=1e-9, updates=1, seed=1)  # fmt: skip # noqa: E501
    assert on.step_size == pytest.approx(whole.step_size, rel=1e-6)
    fixed = larc.train(tiny, small_tasks(), slow=whole, rule=larc.SGD(0.5), updates=1, seed=1)
    assert fixed.step_size is None


def test_a_step_size_is_learned_only_where_there_is_something_to_learn_it_from(tiny):
    still = larc.train(tiny, small_tasks(), objective="static", step_rate=0.1, updates=1, seed=1)
    assert still.step_size is None
    for wrong in (
        {"step_rate": -0.1},
        {"step_rate": float("nan")},
    ):
        with pytest.raises(larc.LarcError, match="step rate"):
            larc.train(tiny, small_tasks(), updates=1, seed=1, **{"step_rate": 0.1, **wrong})


class Fit:
    """The squared distance of ``B A`` from a matrix, of a stack of one."""

    def __init__(self, target):
        self.target = target

    def losses(self, factors):
        return (factors.B @ factors.A - self.target).square().sum((-2, -1))

    def gradients(self, factors):
        leaf = factors.leaf()
        losses = self.losses(leaf)
        return losses.detach(), Factors(*torch.autograd.grad(losses.sum(), (leaf.A, leaf.B)))


def test_two_step_sizes_are_one_size_at_another_balance():
    torch.manual_seed(0)
    objective = Fit(torch.randn(5, 5))
    two = Factors(torch.randn(1, 2, 5), torch.randn(1, 5, 2))
    read_size, write_size = 0.01, 0.04
    size, c = (read_size * write_size) ** 0.5, (write_size / read_size) ** 0.25
    one = Factors(c * two.A, two.B / c)
    for _ in range(3):
        one = larc.SGD(size).step(objective, one).factors
        _, slopes = objective.gradients(two)
        two = Factors(two.A - read_size * slopes.A, two.B - write_size * slopes.B)
    # The same products, but for rounding of float32 through three steps.
    torch.testing.assert_close(two.B @ two.A, one.B @ one.A, atol=1e-5, rtol=1e-5)
