import math

import pytest
import torch

import larc
from larc.training.base import AdamW, batch_indices
from larc.training.labels import LabelTrainer
from larc.training.stack import STEP, with_steps
from larc.training.tasks import Trainer, TrainingSettings
from tests.questions import CANDIDATES, small_tasks, start


def test_an_outer_update_is_clipped_adamw_on_the_mean_gradient(tiny):
    tasks, slow = small_tasks(4), start(tiny)
    outer = AdamW(learning_rate=0.01, clip=1e-3)
    trainer = Trainer(tiny, slow, tasks, TrainingSettings("adapted", batch=2, seed=5, outer=outer))
    batch = [tasks[index] for index in batch_indices(4, batch=2, updates=0, seed=5)]
    _, gradient = trainer._outer_gradient(batch)
    A, B = (torch.nn.Parameter(t.clone()) for t in (slow.factors.A, slow.factors.B))
    A.grad, B.grad = gradient.A.clone(), gradient.B.clone()
    torch.nn.utils.clip_grad_norm_([A, B], 1e-3)
    torch.optim.AdamW([A, B], lr=0.01, weight_decay=0.0).step()
    trainer.advance()
    torch.testing.assert_close(trainer.slow.factors.A, A.detach(), atol=1e-7, rtol=1e-4)
    torch.testing.assert_close(trainer.slow.factors.B, B.detach(), atol=1e-7, rtol=1e-4)
    assert trainer.slow.version == slow.version + 1


def test_rates_that_fall_are_torchs_linear_schedule_and_resume(tiny, tmp_path):
    def trainer(outer):
        labels = [larc.Label(f"q{n}: ", CANDIDATES[:2], n % 2) for n in range(4)]
        return LabelTrainer(tiny, start(tiny), labels, [1.0] * 4, batch=2, seed=1, outer=outer)

    falling = trainer(AdamW(learning_rate=0.01, clip=1e9, falls=4))
    A, B = (torch.nn.Parameter(t.clone()) for t in (falling.slow.factors.A, falling.slow.factors.B))
    torchs = torch.optim.AdamW([A, B], lr=0.01, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LinearLR(torchs, 1.0, 0.0, total_iters=4)
    for update in range(4):
        if update == 2:  # A stopped training goes on where the rate was.
            falling.save(tmp_path / "saved")
            falling = trainer(AdamW(learning_rate=0.01, clip=1e9, falls=4))
            falling.restore(tmp_path / "saved")
        _, gradient = falling.batch_gradient()
        A.grad, B.grad = gradient.A.clone(), gradient.B.clone()
        torchs.step()
        schedule.step()
        falling.advance()
    torch.testing.assert_close(falling.slow.factors.A, A.detach(), atol=1e-7, rtol=1e-4)
    torch.testing.assert_close(falling.slow.factors.B, B.detach(), atol=1e-7, rtol=1e-4)
    ended = falling.slow.digest
    falling.advance()
    assert falling.slow.digest != ended  # another version, of the same numbers
    torch.testing.assert_close(falling.slow.factors.B, B.detach(), atol=1e-7, rtol=1e-4)
    with pytest.raises(larc.LarcError):
        trainer(AdamW(learning_rate=0.01)).restore(tmp_path / "saved")


def test_everything_is_met_once_an_epoch():
    met = [index for updates in range(3) for index in batch_indices(6, 4, updates, seed=1)]
    assert sorted(met[:6]) == sorted(met[6:]) == list(range(6))
    assert met[:6] != met[6:]


def test_an_optimiser_that_could_not_step_is_refused():
    with pytest.raises(larc.LarcError, match="above 0"):
        AdamW(clip=-1)


def test_a_step_size_is_told_only_where_one_is_trained():
    rule = larc.SGD(0.1)
    assert with_steps(rule, {}) == rule
    trained = {STEP: torch.tensor(math.log(0.3), dtype=torch.float64)}
    assert with_steps(rule, trained).step_size == pytest.approx(0.3, rel=1e-15)
    assert with_steps(larc.Descent(), trained).length == pytest.approx(0.3, rel=1e-15)
    with pytest.raises(larc.LarcError, match="lower the step rate"):
        with_steps(rule, {STEP: torch.tensor(99.0)})
