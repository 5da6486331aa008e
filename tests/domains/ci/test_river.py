"""HEDGE4's weights against river's: its own `EWARegressor`, fed the same experts and losses.

river's class is about regression, but it asks nothing of a prediction except that it can be scaled
and added, and nothing of a loss except that it can be called. So its models answer with the four
probabilities of an expert, its loss is the half-Brier loss, and its update runs as it is.
"""

import numpy as np
import pytest
from river import base, ensemble, optim

from larc.domains.ci import EXPERTS, Arrival, Hedge4, half_brier, mixture_weights, read_jobs
from larc.domains.ci.synthetic import synthetic_jobs


class Said(base.Regressor):
    """Answers with what it is handed; learns nothing."""

    def __init__(self, index):
        self.index = index

    def learn_one(self, x, y):
        pass

    def predict_one(self, x):
        return x[self.index]


class Given(optim.losses.RegressionLoss):
    """The loss that a function gives."""

    def __init__(self, of):
        self.of = of

    def __call__(self, y_true, y_pred):
        return self.of(y_pred, y_true)

    def gradient(self, y_true, y_pred):
        raise AssertionError("exponential weights need no gradient")


def river_hedge(of):
    models = [Said(index) for index in range(len(EXPERTS))]
    return ensemble.EWARegressor(models, loss=Given(of), learning_rate=1.0)


def normalized(weights):
    # Before the first loss, river's weights are ones.
    return np.array(weights) / np.sum(weights)


# river multiplies and normalises at every round, HEDGE4 takes exponentials of sums: thousands of
# roundings of a part in 1e16 each, on weights far below one.
CLOSE = {"rtol": 1e-9, "atol": 1e-300}


@pytest.mark.parametrize("seed", range(3))
def test_weights_of_random_losses_are_rivers(seed):
    losses = np.random.default_rng(seed).random((1000, len(EXPERTS))) ** 3
    river = river_hedge(lambda loss, _: loss)
    ours, theirs = [], []
    for number, row in enumerate(losses):
        ours.append(mixture_weights(losses[:number].sum(axis=0)))
        theirs.append(normalized(river.weights))
        river.learn_one(dict(enumerate(row.tolist())), None)
    np.testing.assert_allclose(ours, theirs, **CLOSE)
    assert np.min(theirs) < 1e-3  # they have moved


def agree_on(jobs):
    hedge, river = Hedge4(), river_hedge(half_brier)
    ours, theirs, mixtures = [], [], []
    for job in jobs:
        forecast = hedge.predict(job.observation)
        forecasts = {index: np.array(expert) for index, expert in enumerate(forecast.experts)}
        ours.append(hedge.weights)
        theirs.append(normalized(river.weights))
        mixtures.append((forecast.mixture, river.predict_one(forecasts)))
        # No delay: each label arrives before the next question.
        hedge.update([Arrival(job.observation, forecast, job.label)])
        river.learn_one(forecasts, job.label)
    np.testing.assert_allclose(ours, theirs, **CLOSE)
    # River's first prediction is made with weights that are not normalised yet.
    first, second = zip(*mixtures[1:], strict=True)
    np.testing.assert_allclose(first, second, rtol=1e-9)
    assert np.min(theirs) < 1e-3


def test_weights_on_jobs_without_delay_are_rivers():
    agree_on(synthetic_jobs(800, seed=2))


def test_weights_on_real_jobs_without_delay_are_rivers(shared_data):
    for path in sorted((shared_data / "ci").glob("*.jsonl.gz"))[-1:]:
        jobs, _ = read_jobs(path)
        agree_on(jobs[:1500])
