"""Streams of predictions with late labels, and a plain account of what a forecaster did on them."""

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from larc.stream.mixing.forecaster import Forecaster


@dataclass
class Question:
    name: str
    asked: float
    arrives: float | None
    predictions: dict
    # An outcome, or a rule that picks one when it sees the forecast.
    label: object
    context: str = ""
    weight: float = 1.0


@dataclass
class Played:
    """Rows in the order of arrival; a predictor that did not answer has the forecaster's loss."""

    names: tuple
    forecaster_losses: list = field(default_factory=list)
    losses: list = field(default_factory=list)
    contexts: list = field(default_factory=list)
    forecasts: dict = field(default_factory=dict)

    @property
    def excess(self):
        return np.array(self.forecaster_losses)[:, None] - np.array(self.losses)

    def regrets(self):
        return dict(zip(self.names, self.excess.sum(0), strict=True))

    def against_switches(self, switches):
        """Return the regret to the best sequence of predictors with at most so many switches."""
        return best_path(self.excess, switches)

    def against_contexts(self):
        groups = {}
        for context, row in zip(self.contexts, self.excess, strict=True):
            groups.setdefault(context, []).append(row)
        return sum(np.sum(rows, axis=0).max() for rows in groups.values())


def best_path(gains, switches):
    best = np.full((switches + 1, gains.shape[1]), -np.inf)
    best[0] = gains[0]
    for row in gains[1:]:
        moved = np.vstack(
            [np.full(best.shape[1], -np.inf), np.tile(best.max(1)[:-1, None], best.shape[1])]
        )
        best = np.maximum(best, moved) + row
    return best.max()


def half_brier(probabilities, label):
    error = np.array(probabilities, dtype=float)
    error[label] -= 1
    return 0.5 * (error @ error)


def events(questions):
    """Return (what, questions) in causal order: all that is asked at a time, then what arrives."""
    asked, arriving = defaultdict(list), defaultdict(list)
    for question in questions:
        asked[question.asked].append(question)
        if question.arrives is not None:
            arriving[question.arrives].append(question)
    for time in sorted(asked.keys() | arriving.keys()):
        yield "ask", asked[time]
        yield "arrive", arriving[time]


def play(forecaster: Forecaster, questions, obey=False):
    """Play a stream; with ``obey``, only the predictors that are awake answer."""
    played = Played(forecaster.names)
    labels = {}
    for what, some in events(questions):
        if what == "ask":
            for question in some:
                given = question.predictions
                if obey:
                    given = {name: given[name] for name in forecaster.awake}
                forecast = forecaster.predict(
                    question.name, given, question.context, question.weight
                )
                label = question.label
                labels[question.name] = label(forecast, given) if callable(label) else label
                played.forecasts[question.name] = (forecast, given)
        elif some:
            for question in sorted(some, key=lambda question: question.name):
                forecast, given = played.forecasts[question.name]
                label = labels[question.name]
                forecaster_loss = question.weight * half_brier(forecast.probabilities, label)
                played.forecaster_losses.append(forecaster_loss)
                played.losses.append(
                    [
                        question.weight * half_brier(given[name], label)
                        if name in given
                        else forecaster_loss
                        for name in forecaster.names
                    ]
                )
                played.contexts.append(question.context)
            forecaster.learn([(question.name, labels[question.name]) for question in some])
    return played


def worst_outcome(forecast, given):
    """Choose the outcome that the forecaster thinks least likely."""
    return int(np.argmin(forecast.probabilities))


def spite(forecast, given):
    """Choose the outcome by which some predictor gains most on the forecaster."""
    outcomes = range(len(forecast.probabilities))
    return max(
        outcomes,
        key=lambda outcome: (
            half_brier(forecast.probabilities, outcome)
            - min(half_brier(row, outcome) for row in given.values())
        ),
    )


def skilled(seed, count, predictors=6, outcomes=4, delay=0, period=0, contexts=1):
    """Return questions on which one predictor at a time, or in a context, is better.

    Each sees the true chances through noise; the better one through less of it. Labels arrive
    after a geometric time with the mean ``delay``.
    """
    chance = np.random.default_rng(seed)
    order = chance.permutation(predictors)
    dull = np.full(outcomes, 0.3)
    truth = chance.dirichlet(dull, size=count)
    noise = chance.dirichlet(dull, size=(count, predictors))
    context = chance.integers(contexts, size=count)
    waits = chance.geometric(1 / delay, size=count) if delay else np.zeros(count, dtype=int)
    labels = (chance.random(count)[:, None] > truth.cumsum(1)[:, :-1]).sum(1)
    questions = []
    for number in range(count):
        best = order[((number // period if period else 0) + context[number]) % predictors]
        clear = np.where(np.arange(predictors) == best, 0.9, 0.3)[:, None]
        rows = clear * truth[number] + (1 - clear) * noise[number]
        questions.append(
            Question(
                f"{number:06d}",
                number,
                number + int(waits[number]),
                {f"p{index}": row for index, row in enumerate(rows)},
                int(labels[number]),
                f"c{context[number]}",
            )
        )
    return questions


def names_of(questions):
    return sorted(questions[0].predictions)
