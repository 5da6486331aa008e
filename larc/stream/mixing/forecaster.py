"""A forecaster that trusts its predictors as far as the labels that arrived bear them out.

Every predictor gives probabilities when a question is asked; its label comes later, maybe much
later, and in any order. The forecaster mixes the predictions by Vovk's aggregating algorithm for
the Brier game, with weights that know every label that has arrived and none that has not.

One question passes through four small modules. `mixing.components` keeps weights over the
predictors at several learning rates, with and without drift, common and by context, and a belief
in each of these; `mixing.chains` guards against late labels; `mixing.brier_game` turns
weights and predictions into one prediction; `mixing.sleep` says who is worth asking at all.
`mixing.bounds` says what is promised, and proves it.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import InitVar, asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from larc.errors import LarcError
from larc.evaluation.checks import SUM_TOLERANCE, checked_probabilities
from larc.stream.mixing.bounds import Bound, bound
from larc.stream.mixing.brier_game import RATE, Floats, outcome_losses, substitute
from larc.stream.mixing.chains import Chains
from larc.stream.mixing.components import Components
from larc.stream.mixing.outstanding import Outstanding
from larc.stream.mixing.sleep import SleepSchedule, SleepSettings
from larc.stream.mixing.trust import Trust, TrustRecord, upgraded

_STATE_FORMAT = 3
# How many groups of answering predictors are remembered, to spare work.
_GROUPS = 256


@dataclass(frozen=True)
class ForecasterSettings:
    """How a forecaster learns.

    Attributes
    ----------
    rates
        Learning rates, up to 2. Rate 2 is best where labels arrive at once and singly; slow rates
        are where many are outstanding and those of one commit agree.
    shares
        What part of the weights goes back to all predictors after each label: 0 for a lasting
        best predictor, more for one that changes.
    contexts
        The most contexts to keep weights for; 0 to weigh alike in all.
    sleep
        When predictors sleep; ``None`` for never.
    """

    rates: tuple[float, ...] = (2.0, 0.5, 0.125)
    shares: tuple[float, ...] = (0.0, 1 / 512)
    contexts: int = 256
    sleep: SleepSettings | None = None
    naps: InitVar[SleepSettings | None] = None

    def __post_init__(self, naps: SleepSettings | None) -> None:
        if naps is not None:
            warnings.warn(
                "ForecasterSettings(naps=) is now sleep=; this alias goes with version 0.3.",
                DeprecationWarning,
                stacklevel=3,
            )
            object.__setattr__(self, "sleep", naps)
        if not self.rates or not all(0 < rate <= RATE for rate in self.rates):
            raise LarcError(f"a learning rate of {self.rates} is outside (0, 2]; give some inside.")
        if not self.shares or not all(0 <= share < 1 for share in self.shares):
            raise LarcError(f"a share of {self.shares} is outside [0, 1); give some inside.")
        if self.contexts < 0:
            raise LarcError("a number of contexts is negative; give 0 for none.")


@dataclass(frozen=True)
class Forecast:
    """What was said to a question, and on whose word."""

    name: str
    probabilities: tuple[float, ...]
    weights: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Group:
    """Who answered: one or zero for each predictor, their places, and those of the others."""

    answered: Floats
    here: NDArray[np.intp]
    absent: NDArray[np.intp]


class Forecaster:
    """Mixes predictors by the evidence of labels that arrive late.

    Parameters
    ----------
    names
        The predictors.
    settings
        How it learns.
    free
        Predictors that cost nothing, and so are never put to sleep.

    Examples
    --------
    >>> forecaster = Forecaster(["optimist", "pessimist"])
    >>> policies = {"optimist": [0.9, 0.1], "pessimist": [0.2, 0.8]}
    >>> forecast = forecaster.predict("job 1", policies)
    >>> forecast.weights
    {'optimist': 0.5, 'pessimist': 0.5}
    >>> forecaster.learn([("job 1", 1)])
    >>> forecast = forecaster.predict("job 2", policies, context="docs")
    >>> forecast.weights["pessimist"] > 0.5, forecast.probabilities[1] > 0.5
    (True, True)
    >>> forecaster.regrets()["pessimist"] <= forecaster.bound().total
    True
    """

    def __init__(
        self,
        names: Sequence[str],
        settings: ForecasterSettings | None = None,
        *,
        free: Sequence[str] = (),
    ) -> None:
        if not names or len(set(names)) < len(names):
            raise LarcError("predictors have no names, or two have one; name each differently.")
        if not set(free) <= set(names):
            raise LarcError(f"{min(set(free) - set(names))!r} is free, but is no predictor.")
        self.names = tuple(names)
        self.free = tuple(free)
        self.settings = settings or ForecasterSettings()
        count, chosen = len(self.names), self.settings
        self.components = Components(count, chosen.rates, chosen.shares, chosen.contexts)
        self.chains = Chains(count)
        self.schedule = SleepSchedule(
            count, chosen.sleep, [self.names.index(name) for name in free]
        )
        self.trust = TrustRecord(self.names, chosen.contexts)
        self._groups: dict[tuple[str, ...], _Group] = {}
        self._pending: dict[str, Outstanding] = {}

    @property
    def awake(self) -> tuple[str, ...]:
        """The predictors worth asking now; the others need not be computed."""
        awake = self.schedule.awake.tolist()
        return tuple(name for name, up in zip(self.names, awake, strict=True) if up)

    @property
    def pending(self) -> tuple[str, ...]:
        """The questions whose labels are awaited, in the order they were asked."""
        return tuple(self._pending)

    def predict(
        self,
        name: str,
        predictions: Mapping[str, ArrayLike],
        context: str = "",
        weight: float = 1.0,
    ) -> Forecast:
        """Answer a question now, and keep it until its label arrives.

        Parameters
        ----------
        name
            The question's; no other question with this name may be awaited.
        predictions
            Probabilities of the same outcomes by predictor; those left out are asleep for it.
        context
            What weights may depend on, a workflow for instance.
        weight
            What its loss counts, at most 1.
        """
        if name in self._pending:
            raise LarcError(f"{name!r} is asked already; name each question differently.")
        if not 0 < weight <= 1:
            raise LarcError(f"the weight of {name!r} is {weight}; give one above 0 and up to 1.")
        group = self._group(name, tuple(predictions))
        given = _probabilities(list(predictions.values()))
        answered = group.answered
        losses = np.zeros((len(self.names), given.shape[1]))
        losses[group.here] = outcome_losses(given)  # of the others, zeros that get no weight
        weights = self.components.weights(context)
        main: Floats = self.components.belief @ weights
        chain = self.chains.take()
        net = self.chains.weights[chain]
        used = (net[:-1] + net[-1] * main) * answered
        used /= used @ answered
        likelihoods = np.exp(-RATE * losses)
        mixed = used @ likelihoods
        probabilities = substitute((np.log(mixed) / -RATE).tolist())
        if weight != 1:
            likelihoods = np.exp(-RATE * weight * losses)
            mixed = used @ likelihoods
        if len(group.absent):
            likelihoods[group.absent] = mixed
        self._pending[name] = Outstanding(
            context,
            chain,
            answered,
            used,
            likelihoods,
            [weight * loss for loss in _losses(probabilities)],
            weights @ likelihoods,
            main @ likelihoods,
        )
        self.trust.asked(self._followed(context), answered, used, main)
        shown = zip(self.names, used.tolist(), strict=True)
        return Forecast(
            name, tuple(probabilities), {who: part for who, part in shown if who in predictions}
        )

    def learn(self, labels: Iterable[tuple[str, int]]) -> None:
        """Take in labels that arrive together, whatever order they are given in.

        Parameters
        ----------
        labels
            Names of questions with the outcome of each. They are learned in the order of names.
        """
        batch = sorted(labels)
        for index, (name, label) in enumerate(batch):
            if name not in self._pending or (index and batch[index - 1][0] == name):
                raise LarcError(f"the label of {name!r} arrived, but nothing awaits it.")
            outcomes = self._pending[name].outcomes
            if not 0 <= label < outcomes:
                raise LarcError(f"the label of {name!r} is {label}, outside 0..{outcomes - 1}.")
        contexts = dict.fromkeys(self._followed(self._pending[name].context) for name, _ in batch)
        for name, label in batch:
            self._learn(self._pending.pop(name), label)
        for context in contexts:
            self.trust.settle(context, self.components.trusted(context))

    def drop(self, names: Collection[str]) -> None:
        """Forget questions whose labels will never come: they cost no loss and teach nothing."""
        for name in names:
            if name not in self._pending:
                raise LarcError(f"{name!r} is to be dropped, but nothing awaits it.")
        for name in set(names):
            self.chains.free(self._pending.pop(name).chain)

    def _learn(self, asked: Outstanding, label: int) -> None:
        likelihoods, mixture = asked.likelihoods[:, label], float(asked.mixture[label])
        losses = np.log(likelihoods) / -RATE
        gains = (asked.own[label] - losses) * asked.answered
        self.chains.learn(asked.chain, likelihoods, mixture)
        self.components.learn(asked.context, losses, asked.components[:, label], mixture)
        self.trust.learned(self._followed(asked.context), asked.answered, losses, gains)
        self.schedule.learn(asked.answered, asked.used, gains, self._peaks)

    def _followed(self, context: str) -> str:
        """Return the context whose trust is followed: one for all, if weights do not depend."""
        return context if self.settings.contexts else ""

    def _peaks(self) -> Floats:
        return self.components.peaks(self.settings.sleep.term if self.settings.sleep else 0)

    def regrets(self) -> dict[str, float]:
        """Return how much more the forecaster lost than each predictor, where that one answered."""
        return dict(zip(self.names, self.trust.regrets.tolist(), strict=True))

    def bound(self, *, switches: int = 0, each_context: bool = False) -> Bound:
        """Return the most that any regret can be, given the delays so far.

        Parameters
        ----------
        switches
            Compare with a sequence of predictors that has so many switches.
        each_context
            Compare with the best predictor of each context.
        """
        return bound(self.components, len(self.chains), switches, each_context)

    def report(self) -> Trust:
        """Return whom it trusted, when and why."""
        return self.trust.report()

    def state(self) -> dict[str, Any]:
        """Return everything, as JSON values that keep every bit.

        Examples
        --------
        >>> state = Forecaster(["a", "b"]).state()
        >>> Forecaster.from_state(state).state() == state
        True
        """
        return {
            "format": _STATE_FORMAT,
            "names": list(self.names),
            "free": list(self.free),
            "settings": asdict(self.settings),
            "components": self.components.state(),
            "chains": self.chains.state(),
            "sleepers": self.schedule.state(),
            "trust": self.trust.state(),
            "pending": {name: asked.state() for name, asked in self._pending.items()},
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Forecaster:
        """Return the forecaster of a state; it goes on exactly where that one was.

        Examples
        --------
        >>> Forecaster.from_state({"format": 0})
        Traceback (most recent call last):
        ...
        larc.errors.LarcError: this is no state of a forecaster in format 3.
        """
        if state.get("format") not in range(1, _STATE_FORMAT + 1):
            raise LarcError(f"this is no state of a forecaster in format {_STATE_FORMAT}.")
        try:
            if state["format"] == 1:
                state = {**state, "trust": upgraded(state["trust"])}
            chosen = dict(state["settings"])
            if state["format"] < 3:  # which called it so
                chosen["sleep"] = chosen.pop("naps")
            for field in ("rates", "shares"):
                chosen[field] = tuple(chosen[field])
            chosen["sleep"] = None if chosen["sleep"] is None else SleepSettings(**chosen["sleep"])
            restored = cls(state["names"], ForecasterSettings(**chosen), free=state["free"])
            restored.components.restore(state["components"])
            restored.chains.restore(state["chains"])
            restored.schedule.restore(state["sleepers"])
            restored.trust.restore(state["trust"])
            sizes = len(restored.names), len(restored.components.rates)
            restored._pending = {
                name: Outstanding.from_state(saved, *sizes)
                for name, saved in state["pending"].items()
            }
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise LarcError(f"this state of a forecaster is damaged: {error!r}.") from error
        return restored

    def _group(self, name: str, who: tuple[str, ...]) -> _Group:
        """Return where those who answered stand; the same few groups come again and again."""
        group = self._groups.get(who)
        if group is None:
            unknown = set(who) - set(self.names)
            if unknown or not who:
                whose = f"{min(unknown)!r}, no predictor," if unknown else "nobody"
                raise LarcError(f"{whose} answered {name!r}; give predictions of {self.names}.")
            if len(self._groups) >= _GROUPS:
                self._groups.clear()
            here = [self.names.index(one) for one in who]
            absent = [index for index in range(len(self.names)) if index not in here]
            answered = np.zeros(len(self.names))
            answered[here] = 1.0
            group = self._groups[who] = _Group(answered, np.array(here), np.array(absent, int))
        return group


def check_probabilities(rows: Any, outcomes: int) -> None:
    """Refuse rows that are no probabilities of so many outcomes.

    Examples
    --------
    >>> check_probabilities([[0.5, 0.5]], 3)
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: probabilities of 2 outcomes were given; there are 3.
    """
    given = _probabilities(rows)
    if given.shape[1] != outcomes:
        raise LarcError(
            f"probabilities of {given.shape[1]} outcomes were given; there are {outcomes}."
        )


def _probabilities(rows: Any) -> Floats:
    """Return rows that sum to one; float32 predictions miss it by some 1e-7."""
    try:
        given = np.asarray(rows, dtype=np.float64)
        sums = given @ np.ones(given.shape[1])
        right = given.min() >= 0 and all(abs(s - 1) <= SUM_TOLERANCE for s in sums.tolist())
    except (IndexError, TypeError, ValueError):
        right = False
    if not right:
        # The whole check finds the words; for every question it would take too long.
        given = checked_probabilities(rows)
        sums = given.sum(axis=1)
    scaled: Floats = given / sums[:, None]
    return scaled


def _losses(probabilities: Sequence[float]) -> list[float]:
    half = 0.5 * (sum(p * p for p in probabilities) + 1.0)
    return [half - p for p in probabilities]
