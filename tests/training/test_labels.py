import pytest
import torch

import larc
from larc.training.base import AdamW
from larc.training.labels import LabelTrainer
from tests.questions import CANDIDATES, start


def test_label_training_weighs_its_examples(tiny):
    labels = [larc.Label(f"q{n}: ", CANDIDATES[:2], n % 2) for n in range(4)]
    slow = start(tiny)
    weighted = LabelTrainer(tiny, slow, labels, [3, 1, 0, 0], batch=4, seed=1)
    loss, gradient = weighted.batch_gradient()
    parts = []
    for label in labels[:2]:
        alone = LabelTrainer(tiny, slow, [label], [1.0], batch=1)
        parts.append(alone.batch_gradient())
    assert loss == pytest.approx((3 * parts[0][0] + parts[1][0]) / 4, abs=1e-5)
    expected = (3 * parts[0][1].B + parts[1][1].B) / 4
    torch.testing.assert_close(gradient.B, expected, atol=1e-6, rtol=1e-4)
    assert weighted.epoch == 1


def test_label_training_learns_and_resumes(tiny, tmp_path):
    labels = [larc.Label(f"q{n}: ", CANDIDATES[:2], 1) for n in range(6)]

    def trainer():
        outer = AdamW(learning_rate=0.02)
        return LabelTrainer(tiny, start(tiny), labels, [1.0] * 6, batch=2, seed=1, outer=outer)

    whole = trainer()
    losses = [whole.advance() for _ in range(12)]
    assert sum(losses[-3:]) < sum(losses[:3])
    first = trainer()
    for _ in range(5):
        first.advance()
    first.save(tmp_path / "saved", {"note": 1})
    second = trainer()
    assert second.restore(tmp_path / "saved") == {"note": 1}
    for _ in range(7):
        second.advance()
    assert second.slow.digest == whole.slow.digest
