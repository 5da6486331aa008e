"""HEDGE4: four cheap predictors of a job's end, mixed by exponential weights.

The predictors are a workflow's smoothed label frequencies (``prior``), the last label of the same
workflow and job (``last``), the last label of the same commit, workflow and job (``commit``), and
a hashed logistic regression (``logistic``). All of them see the seven public fields and nothing
else. One choice in them was not made blindly: :data:`CHOICE`.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from larc.domains.ci.features import FeatureHasher
from larc.domains.ci.jobs import LABELS, Observation
from larc.errors import LarcError

#: The experts, in the order of their losses and weights.
EXPERTS = ("prior", "last", "commit", "logistic")

#: Said wherever HEDGE4's scores are shown.
CHOICE = (
    "The logistic expert of HEDGE4 has features of unit length. This was chosen, of five variants, "
    "after their scores on the whole histories of apache/ozone and bitcoin/bitcoin were seen: on "
    "those two its scores, and HEDGE4's, are not blind to the choice."
)

_LAST = (0.7, 0.1)
_COMMIT = (0.97, 0.01)
_STATE_FORMAT = 1

Probabilities = tuple[float, float, float, float]
Key = tuple[str | int | None, ...]
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class HedgeSettings:
    """The sizes and rates of HEDGE4; the defaults are the paper's."""

    keys: int = 4096
    features: int = 1024
    rate: float = 0.1
    decay: float = 1e-4


@dataclass(frozen=True, slots=True)
class HedgeForecast:
    """What HEDGE4 and each of its experts said when they were asked. Kept until the label arrives.

    Parameters
    ----------
    mixture
        The probabilities of the four labels.
    experts
        The same of every expert, in the order of :data:`EXPERTS`.
    """

    mixture: Probabilities
    experts: tuple[Probabilities, Probabilities, Probabilities, Probabilities]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A label that arrived, with what was seen and said when it was asked for."""

    observation: Observation
    forecast: HedgeForecast
    label: int


def half_brier(probabilities: Sequence[float], label: int) -> float:
    """Return half the squared distance between probabilities and what happened.

    Examples
    --------
    >>> half_brier((0.25, 0.25, 0.25, 0.25), 0)
    0.375
    """
    errors = list(probabilities)
    errors[label] -= 1.0
    # Written out: nine of these are computed for every job of a history.
    a, b, c, d = errors
    return 0.5 * (a * a + b * b + c * c + d * d)


def mixture_weights(losses: Sequence[float]) -> tuple[float, ...]:
    """Return weights in proportion to ``exp(-loss)``.

    Examples
    --------
    >>> mixture_weights([3.0, 3.0]), mixture_weights([0.0, 2000.0])
    ((0.5, 0.5), (1.0, 0.0))
    """
    # Measured from the smallest: the losses of a long history would all underflow.
    least = min(losses)
    weights = [math.exp(least - loss) for loss in losses]
    total = sum(weights)
    return tuple(weight / total for weight in weights)


class Hedge4:
    """Four experts and their exponential-weights mixture, learning from labels as they arrive.

    :meth:`predict` only reads; :meth:`update` takes all labels of one completion time as one
    batch. The caller keeps a forecast until its label arrives, because the mixture is weighed by
    what the experts said when they were asked.

    Each of the three statistics maps holds at most ``settings.keys`` keys and gives up the one
    that was written longest ago. Reading does not count as use: then a question, which nobody has
    answered yet, could change later predictions.

    Examples
    --------
    >>> hedge = Hedge4()
    >>> seen = Observation("o/r", 5, None, "push", "build", "c0ffee", 1767312000)
    >>> forecast = hedge.predict(seen)
    >>> forecast.mixture
    (0.25, 0.25, 0.25, 0.25)
    >>> hedge.update([Arrival(seen, forecast, label=1)])
    >>> [round(p, 2) for p in hedge.predict(seen).experts[2]]
    [0.01, 0.97, 0.01, 0.01]
    """

    __slots__ = ("_commit", "_hasher", "_last", "_losses", "_prior", "_weights", "settings")

    def __init__(self, settings: HedgeSettings | None = None) -> None:
        self.settings = HedgeSettings() if settings is None else settings
        self._hasher = FeatureHasher(self.settings.features)
        self._losses = [0.0] * len(EXPERTS)
        self._prior: OrderedDict[Key, tuple[int, ...]] = OrderedDict()
        self._last: OrderedDict[Key, int] = OrderedDict()
        self._commit: OrderedDict[Key, int] = OrderedDict()
        self._weights = np.zeros((self.settings.features, len(LABELS)))

    @property
    def losses(self) -> tuple[float, ...]:
        """The half-Brier loss that each expert has accumulated through arrived labels."""
        return tuple(self._losses)

    @property
    def weights(self) -> tuple[float, ...]:
        """The weight of each expert in the mixture, now."""
        return mixture_weights(self._losses)

    def predict(self, observation: Observation) -> HedgeForecast:
        """Return the forecast for a job from what has arrived so far; nothing changes."""
        workflow, job, commit = _keys(observation)
        prior = _smoothed(self._prior.get(workflow, (0, 0, 0, 0)))
        last, same = self._last.get(job), self._commit.get(commit)
        experts = (
            prior,
            prior if last is None else _peaked(last, *_LAST),
            prior if same is None else _peaked(same, *_COMMIT),
            self._logistic(self._hasher.indices(observation)),
        )
        a, b, c, d = mixture_weights(self._losses)
        p, q, r, s = experts
        mixture = (
            a * p[0] + b * q[0] + c * r[0] + d * s[0],
            a * p[1] + b * q[1] + c * r[1] + d * s[1],
            a * p[2] + b * q[2] + c * r[2] + d * s[2],
            a * p[3] + b * q[3] + c * r[3] + d * s[3],
        )
        return HedgeForecast(mixture, experts)

    def update(self, batch: Sequence[Arrival]) -> None:
        """Learn from the labels of one completion time, given in the order of their identifiers.

        The logistic regression takes one step on the mean gradient of the batch, at the weights
        before it. The order matters only where two of the batch write one key: the later stays.
        """
        for arrival in batch:
            _check_label(arrival.label)
        if not batch:
            return
        rate, keys = self.settings.rate, self.settings.keys
        active = [self._hasher.indices(arrival.observation) for arrival in batch]
        steps = []
        for indices, arrival in zip(active, batch, strict=True):
            step = np.array(self._logistic(indices))
            step[arrival.label] -= 1.0
            steps.append(step * (rate / len(batch) / math.sqrt(len(indices))))
        self._weights *= 1.0 - rate * self.settings.decay
        for indices, step in zip(active, steps, strict=True):
            # The indices are distinct, so indexed subtraction misses none.
            self._weights[indices] -= step
        for arrival in batch:
            label = arrival.label
            for index, probabilities in enumerate(arrival.forecast.experts):
                self._losses[index] += half_brier(probabilities, label)
            workflow, job, commit = _keys(arrival.observation)
            counts = list(self._prior.get(workflow, (0, 0, 0, 0)))
            counts[label] += 1
            _write(self._prior, workflow, tuple(counts), keys)
            _write(self._last, job, label, keys)
            _write(self._commit, commit, label, keys)

    def state(self) -> dict[str, Any]:
        """Return everything that was learned: JSON values, and the array ``logistic``.

        Examples
        --------
        >>> sorted(Hedge4().state())
        ['commit', 'format', 'last', 'logistic', 'losses', 'prior', 'settings']
        """
        return {
            "format": _STATE_FORMAT,
            "settings": asdict(self.settings),
            "losses": list(self._losses),
            # Pairs and not objects: keys are tuples, and their order decides who is given up.
            "prior": [[list(key), list(counts)] for key, counts in self._prior.items()],
            "last": [[list(key), label] for key, label in self._last.items()],
            "commit": [[list(key), label] for key, label in self._commit.items()],
            "logistic": self._weights.copy(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Hedge4:
        """Return the HEDGE4 of a state; it goes on exactly where that one was.

        Examples
        --------
        >>> Hedge4.from_state({"format": 0})
        Traceback (most recent call last):
        ...
        larc.errors.LarcError: this is no state of HEDGE4 in format 1.
        """
        if state.get("format") != _STATE_FORMAT:
            raise LarcError(f"this is no state of HEDGE4 in format {_STATE_FORMAT}.")
        try:
            hedge = cls(HedgeSettings(**state["settings"]))
            weights = np.array(state["logistic"], dtype=np.float64)
            hedge._losses = [float(loss) for loss in state["losses"]]
            hedge._prior = OrderedDict((tuple(k), tuple(map(int, v))) for k, v in state["prior"])
            hedge._last = OrderedDict((tuple(k), _check_label(v)) for k, v in state["last"])
            hedge._commit = OrderedDict((tuple(k), _check_label(v)) for k, v in state["commit"])
        except (KeyError, TypeError, ValueError) as error:
            raise LarcError(f"this state of HEDGE4 is damaged: {error!r}.") from error
        shapes = {len(counts) for counts in hedge._prior.values()} - {len(LABELS)}
        if weights.shape != hedge._weights.shape or len(hedge._losses) != len(EXPERTS) or shapes:
            raise LarcError("this state of HEDGE4 is damaged: an array has the wrong size.")
        hedge._weights = weights
        return hedge

    def _logistic(self, indices: npt.NDArray[np.intp]) -> Probabilities:
        # Each active feature has the value 1/sqrt(n): a text of any length has length one, so one
        # learning rate suits a job with four words and one with forty.
        scores = self._weights.take(indices, axis=0).sum(axis=0) / math.sqrt(len(indices))
        a, b, c, d = scores.tolist()
        top = max(a, b, c, d)
        a, b, c, d = math.exp(a - top), math.exp(b - top), math.exp(c - top), math.exp(d - top)
        total = a + b + c + d
        return a / total, b / total, c / total, d / total


def _keys(observation: Observation) -> tuple[Key, Key, Key]:
    """Return the workflow's key, the job's, and the commit's.

    A workflow is its id, or its path where there is none. The repository is in every key, so
    that histories of several can be pooled.
    """
    repository, name = observation.repository, observation.job_name
    workflow = observation.workflow_id
    flow = observation.workflow_path if workflow is None else workflow
    return (
        (repository, flow),
        (repository, flow, name),
        (repository, flow, name, observation.commit),
    )


def _smoothed(counts: Sequence[int]) -> Probabilities:
    a, b, c, d = counts
    total = a + b + c + d + len(LABELS)
    return (a + 1) / total, (b + 1) / total, (c + 1) / total, (d + 1) / total


def _peaked(label: int, here: float, elsewhere: float) -> Probabilities:
    a, b, c, d = (here if index == label else elsewhere for index in range(len(LABELS)))
    return a, b, c, d


def _write(table: OrderedDict[Key, V], key: Key, value: V, limit: int) -> None:
    table[key] = value
    table.move_to_end(key)
    if len(table) > limit:
        table.popitem(last=False)


def _check_label(label: Any) -> int:
    if type(label) is not int or not 0 <= label < len(LABELS):
        raise LarcError(f"label {label!r} is none of 0..{len(LABELS) - 1}.")
    return label
