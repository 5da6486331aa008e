"""The forecaster against plain exponential weights on made-up streams shaped like CI queues.

Commits of a few jobs that tend to end alike, thirteen predictors, four outcomes, labels that come
late. Run with `python -m benchmarks.forecasting`; no model is needed.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from larc.stream.mixing.forecaster import Forecaster, ForecasterSettings
from larc.stream.mixing.sleep import SleepSettings

PREDICTORS, OUTCOMES = 13, 4
NAMES = [f"p{index:02d}" for index in range(PREDICTORS)]


@dataclass(frozen=True)
class Shape:
    """A kind of stream: its jobs, their mean delay, and when another predictor becomes best."""

    jobs: int = 5000
    delay: int = 40
    commit: int = 1
    period: int = 0
    contexts: int = 1


SHAPES = {
    "no delay": Shape(delay=0),
    "delay 40": Shape(),
    "commits of 20, delay 200": Shape(commit=20, delay=200),
    "switch every 500, delay 40": Shape(period=500),
    "switch, commits of 20, delay 200": Shape(period=500, commit=20, delay=200),
    "5 contexts, delay 40": Shape(contexts=5),
}


class Stream:
    def __init__(self, shape: Shape, seed: int) -> None:
        chance = np.random.default_rng(seed)
        jobs, usual = shape.jobs, np.array([4, 0.4, 0.6, 0.3])
        commits = np.arange(jobs) // shape.commit
        truth = chance.dirichlet(usual * 0.4, size=commits[-1] + 1)[commits]
        self.labels = (chance.random(jobs)[:, None] > truth.cumsum(1)[:, :-1]).sum(1)
        self.contexts = chance.integers(shape.contexts, size=jobs)
        self.phases = np.arange(jobs) // (shape.period or jobs)
        best = chance.permutation(PREDICTORS)[(self.phases + self.contexts) % PREDICTORS]
        clear = np.tile(chance.uniform(0.1, 0.5, PREDICTORS), (jobs, 1))
        clear[np.arange(jobs), best] += 0.25
        noise = chance.dirichlet(usual, size=(jobs, PREDICTORS))
        self.given = clear[..., None] * truth[:, None] + (1 - clear[..., None]) * noise
        happened = np.eye(OUTCOMES)[self.labels]
        self.losses = 0.5 * ((self.given - happened[:, None]) ** 2).sum(2)
        # Jobs of a commit start together.
        starts = commits * shape.commit
        waits = chance.geometric(1 / shape.delay, size=jobs) if shape.delay else np.zeros(jobs, int)
        arriving = defaultdict(list)
        for job, moment in enumerate((starts + waits).tolist()):
            arriving[moment].append(job)
        asking = defaultdict(list)
        for job, moment in enumerate(starts.tolist()):
            asking[moment].append(job)
        self.events = [
            (asking[moment], arriving[moment]) for moment in sorted(asking.keys() | arriving.keys())
        ]

    def oracle(self) -> float:
        """The total loss of the best predictor of every phase and context."""
        kinds = self.phases * 1000 + self.contexts
        return float(sum(self.losses[kinds == k].sum(0).min() for k in np.unique(kinds)))


def half_brier(probabilities: np.ndarray, label: int) -> float:
    error = np.array(probabilities)
    error[label] -= 1
    return float(0.5 * error @ error)


def plain(stream: Stream, rate: float) -> float:
    """The total loss of the weighted average under plain exponential weights, as in HEDGE4."""
    sums, total = np.zeros(PREDICTORS), 0.0
    for asked, arrived in stream.events:
        weights = np.exp(rate * (sums.min() - sums))
        weights /= weights.sum()
        for job in asked:
            total += half_brier(weights @ stream.given[job], stream.labels[job])
        for job in arrived:
            sums += stream.losses[job]
    return total


@dataclass
class Outcome:
    forecaster: Forecaster
    loss: float = 0.0
    averaged: float = 0.0
    answers: int = 0
    seconds: float = 0.0


def follow(stream: Stream, settings: ForecasterSettings) -> Outcome:
    """Play a stream; also what the average of the predictions under the same weights would lose."""
    outcome = Outcome(Forecaster(NAMES, settings))
    forecaster = outcome.forecaster
    rows = [dict(zip(NAMES, given, strict=True)) for given in stream.given]
    titles = [f"{job:06d}" for job in range(len(rows))]
    places = [f"c{context}" for context in stream.contexts.tolist()]
    labels = stream.labels.tolist()
    forecasts = {}
    begin = time.process_time()
    for asked, arrived in stream.events:
        for job in asked:
            awake = {name: rows[job][name] for name in forecaster.awake}
            forecasts[job] = forecaster.predict(titles[job], awake, places[job])
        forecaster.learn([(titles[job], labels[job]) for job in arrived])
    outcome.seconds = time.process_time() - begin
    for job, forecast in forecasts.items():
        average = sum(weight * rows[job][name] for name, weight in forecast.weights.items())
        outcome.loss += half_brier(np.array(forecast.probabilities), labels[job])
        outcome.averaged += half_brier(np.asarray(average), labels[job])
        outcome.answers += len(forecast.weights)
    return outcome


def main() -> None:
    everything = ForecasterSettings(sleep=SleepSettings())
    head = ["best", "oracle", "hedge", "ours", "bound", "worst", "average", "napping", "awake"]
    print(
        "Total loss of the best predictor. How much more was lost, or may be: by the best of each"
    )
    print("phase and context, plain weights, the forecaster; its weights without substitution.")
    print(f"{'':34s}" + "".join(f"{title:>9s}" for title in head) + "  questions/s")
    for name, shape in SHAPES.items():
        stream = Stream(shape, seed=1)
        best = stream.losses.sum(0).min()
        outcome = follow(stream, everything)
        full = follow(stream, replace(everything, sleep=None))
        limit = full.forecaster.bound()
        numbers = (
            best,
            stream.oracle() - best,
            plain(stream, 1.0) - best,
            full.loss - best,
            limit.start + limit.late,
            limit.worst,
            full.averaged - best,
            outcome.loss - best,
        )
        print(f"{name:34s}" + "".join(f"{number:9.1f}" for number in numbers), end="")
        print(f"{outcome.answers / shape.jobs:9.1f}{shape.jobs / full.seconds:13.0f}")


if __name__ == "__main__":
    main()
