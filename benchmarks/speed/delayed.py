"""Online learners without a language model on CI jobs: each predicts when a job starts.

They learn when its label arrives, every repository by itself, and return the half-Brier loss of
each prediction.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, Protocol

from benchmarks.speed.peers import need
from larc.domains.ci.baseline import replay
from larc.domains.ci.experts import half_brier, mixture_weights
from larc.domains.ci.jobs import LABELS, Job
from larc.stream.queue import Arrive, Ask, order_events, split_streams

_CLASSES = range(len(LABELS))


class Online(Protocol):
    """What predicts a job, and learns from its label later."""

    def predict(self, job: Job) -> Sequence[float]:
        """Return the probabilities of the four labels."""

    def learn(self, job: Job) -> None:
        """Learn from the job's label."""


def hedge_losses(jobs: Sequence[Job]) -> list[float]:
    """Return the losses of HEDGE4.

    Examples
    --------
    >>> from larc.domains.ci.synthetic import synthetic_jobs
    >>> len(hedge_losses(synthetic_jobs(20, seed=1)))
    20
    """
    return [
        half_brier(prediction.forecast.mixture, prediction.job.label) for prediction in replay(jobs)
    ]


def river_losses(jobs: Sequence[Job]) -> list[float]:
    """Return the losses of HEDGE4 built from river's parts."""
    parts = {name: need(f"river.{name}") for name in ("dummy", "linear_model", "preprocessing")}
    return _losses(jobs, lambda: RiverHedge(parts))


def wabbit_losses(jobs: Sequence[Job]) -> list[float]:
    """Return the losses of Vowpal Wabbit: one against all, logistic, hashed pairs of words."""
    package = need("vowpalwabbit")
    return _losses(jobs, lambda: Wabbit(package))


class RiverHedge:
    """The four experts as river's classifiers, mixed by exponential weights."""

    def __init__(self, parts: dict[str, Any]) -> None:
        dummy = parts["dummy"]
        self.prior: dict[object, Any] = defaultdict(dummy.PriorClassifier)
        self.last: dict[object, Any] = defaultdict(dummy.NoChangeClassifier)
        self.commit: dict[object, Any] = defaultdict(dummy.NoChangeClassifier)
        hasher = parts["preprocessing"].FeatureHasher(n_features=1024, seed=1)
        self.logistic = hasher | parts["linear_model"].SoftmaxRegression()
        self.losses = [0.0] * 4
        self.forecasts: dict[int, list[list[float]]] = {}

    def predict(self, job: Job) -> list[float]:
        """Return the mixture, and keep what each expert said until the label arrives."""
        flow, name = job.workflow_id, (job.workflow_id, job.job_name)
        prior = _smooth(self.prior[flow].predict_proba_one({}), 0.1)
        experts = [
            prior,
            _smooth(self.last[name].predict_proba_one({}), 0.4) if name in self.last else prior,
            _smooth(self.commit[name, job.head_sha].predict_proba_one({}), 0.04),
            _smooth(self.logistic.predict_proba_one(_fields(job)), 0.0),
        ]
        self.forecasts[job.job_id] = experts
        weights = mixture_weights(self.losses)
        return [
            sum(w * expert[k] for w, expert in zip(weights, experts, strict=True)) for k in _CLASSES
        ]

    def learn(self, job: Job) -> None:
        """Teach every expert, and charge it for what it had said."""
        for number, expert in enumerate(self.forecasts.pop(job.job_id)):
            self.losses[number] += half_brier(expert, job.label)
        name = (job.workflow_id, job.job_name)
        self.prior[job.workflow_id].learn_one({}, job.label)
        self.last[name].learn_one({}, job.label)
        self.commit[name, job.head_sha].learn_one({}, job.label)
        self.logistic.learn_one(_fields(job), job.label)


class Wabbit:
    """Vowpal Wabbit, with its defaults for everything but the task."""

    def __init__(self, package: Any) -> None:
        self.model = package.Workspace(
            "--oaa 4 --probabilities --loss_function logistic -b 12 --ngram 2 --quiet"
        )

    def predict(self, job: Job) -> Sequence[float]:
        """Return its probabilities."""
        probabilities: Sequence[float] = self.model.predict(f"| {_words(job)}")
        return probabilities

    def learn(self, job: Job) -> None:
        """Teach it."""
        self.model.learn(f"{job.label + 1} | {_words(job)}")


def _losses(jobs: Sequence[Job], make: Callable[[], Online]) -> list[float]:
    losses = []
    for stream_jobs in split_streams(jobs, stream=lambda job: job.repository).values():
        model = make()
        for event in _events(stream_jobs):
            for job in event.items:
                if isinstance(event, Ask):
                    losses.append(half_brier(model.predict(job), job.label))
                else:
                    model.learn(job)
    return losses


def _events(jobs: Sequence[Job]) -> Iterator[Ask[Job] | Arrive[Job]]:
    return order_events(
        jobs,
        asked=lambda job: job.started_at,
        arrives=lambda job: job.completed_at,
        identifier=lambda job: job.job_id,
    )


def _fields(job: Job) -> dict[str, Any]:
    seen = asdict(job.observation)
    del seen["started_at"]
    return {name: str(value) for name, value in seen.items()}


def _words(job: Job) -> str:
    texts = [f"{name} {value}" for name, value in _fields(job).items()]
    return " ".join(re.sub(r"\W+", " ", text) for text in texts)


def _smooth(probabilities: dict[int, float], part: float) -> list[float]:
    """Return four probabilities, a part of them spread evenly."""
    total = sum(probabilities.values())
    if not total:
        return [1 / len(LABELS)] * len(LABELS)
    return [(1 - part) * probabilities.get(k, 0.0) / total + part / len(LABELS) for k in _CLASSES]
