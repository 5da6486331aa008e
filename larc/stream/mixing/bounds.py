r"""What a forecaster promises against its predictors, and why.

For predictor ``i`` let the *excess* be the sum, over the questions that ``i`` answered and whose
labels have arrived, of the forecaster's loss minus that of ``i``, in half-Brier, each question
times its weight. On every sequence, for every ``i``, with ``N`` predictors:

1. **Worst case.** ``excess <= (M ln N + 2 ln (M + 1)!) / 2``, where ``M`` is the most questions
   that were ever outstanding at once, the one being asked among them. It is known before any
   label, and it does not grow with the number of questions.
2. **As it went.** For every component ``k`` (see `mixing.components`), with learning rate
   ``r``, share ``a``, and ``C`` components in all, after ``n`` labels,
   ``excess <= (ln C + ln 2) / 2 + (ln N + (n - 1) ln 1/(1 - a + a/N)) / r + late(k)``.
   ``late(k)`` is what late labels cost, added up as they come in: what component and belief would
   have lost had they known everything that arrived before, compared with what they did lose. It
   is never positive where no label is late, and does not look at how good ``i`` was.

The same holds against a *sequence* of predictors with ``s`` switches: each costs
``ln(N/a) - ln 1/(1 - a + a/N)``, divided by ``r``, more. Against the best predictor of *each
context*, ``ln N`` becomes ``ln 2N`` for every time that a context's weights were started. Here
the questions that the predictor of the moment did not answer are the ones left out.

Why. Write ``m(q, x) = -1/2 ln sum_j q_j exp(-2 x_j)`` for weights ``q`` and losses ``x``.

a. The forecaster mixes its predictors with some weights ``v`` and loses at most ``m(v, losses)``,
   whatever happens: half-Brier is mixable at rate 2 (`mixing.brier_game`). Call it ``m``. A
   question of weight ``w <= 1`` has losses ``w x``, and ``w m(v, x) <= m(v, w x)`` by Jensen.
b. A predictor that is asleep is given the loss ``m``. With that, ``v`` restricted to those awake
   and renormalised mixes to the same ``m`` as ``v`` does, and ``m`` cancels on both sides of every
   bound below: only the questions that ``i`` answered remain (Freund, Schapire, Singer and
   Warmuth 1997; Chernov and Vovk 2009).
c. In a chain (`mixing.chains`) no label is late, so weights updated by Bayes' rule telescope:
   ``sum m <= sum x_i + 1/2 ln 1/prior(i)``. Chain ``c`` has ``prior(i) = 1 / (N (c + 1)**2)``;
   summed over ``M`` chains this is 1. It has ``prior(mixture) = 1 - 1 / (c + 1)**2``, and the
   product of these over all chains is above 1/2: the forecaster loses at most ``ln 2 / 2`` more
   than the main mixture.
d. The main mixture's weights over the components would telescope as well, at a cost of
   ``1/2 ln C``, had all labels before it been known when a question was asked. The difference,
   summed over questions, is computed when each label arrives: at that moment the belief with all
   labels before it is at hand, and the one that was used is kept. So for the components: updated
   at rate ``r <= 2`` with a share, in the order of arrival, component ``k`` telescopes at a cost of
   ``1/r ln 1/prior(path)``, with the prior of Herbster and Warmuth (1998): ``1/N`` to begin with,
   ``1 - a + a/N`` to stay and ``a/N`` to move. ``m`` at rate 2 is at most ``m`` at rate ``r``.
   The two differences are ``late(k)``; c and d together are 2.

The mean loss over ``n`` labels is therefore within ``bound / n`` of the best predictor's. A score
that weighs questions differently is another sum, of which an unweighted bound says nothing. Where
the weights ``s_t`` of a score are known when questions are asked, ask with ``s_t / max s``: the
score's excess is then at most ``max s`` times the bound. Where they are not (the size of a commit
is known when its last job has started), there is no bound on such a score but the trivial one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from larc.errors import LarcError
from larc.stream.mixing.brier_game import RATE
from larc.stream.mixing.components import UNIFORM, Components


@dataclass(frozen=True)
class Bound:
    """The most by which a forecaster's loss exceeds a predictor's, in total.

    Attributes
    ----------
    total
        The bound: the lesser of the two below.
    worst
        What is known before any label; infinite against switches and contexts.
    start, late
        As it went: what it would be with no label late, and what late labels cost.
    rate, share
        The component with the least sum of the two.
    """

    total: float
    worst: float
    start: float
    late: float
    rate: float
    share: float


def worst_case(predictors: int, outstanding: int) -> float:
    """Return the bound that needs no label: for so many outstanding questions at most.

    Examples
    --------
    >>> round(worst_case(predictors=13, outstanding=1), 3), round(worst_case(13, 60), 1)
    (1.976, 269.7)
    """
    return (outstanding * math.log(predictors) + 2 * math.lgamma(outstanding + 2)) / RATE


def bound(components: Components, outstanding: int, switches: int, each_context: bool) -> Bound:
    """Return what is promised now.

    Parameters
    ----------
    components
        The forecaster's.
    outstanding
        The most questions that were outstanding at once.
    switches
        Against a sequence of predictors with so many switches in the order of arrival; within
        contexts if those are meant.
    each_context
        Against the best predictor of each context.
    """
    if switches < 0:
        raise LarcError(f"{switches} switches were asked for; give 0 or more.")
    if each_context and not components.limit:
        raise LarcError("these weights are the same in all contexts; ask for the common bound.")
    count, labels = components.predictors, components.learned
    first = components.rows if each_context else 0
    starts = max(components.starts, 1) if each_context else 1
    begin = starts * math.log(count / UNIFORM if each_context else count)
    always = (math.log(len(components.rates)) + math.log(2)) / RATE
    best: Bound | None = None
    for index in range(first, first + components.rows):
        rate, share = float(components.rates[index]), float(components.shares[index])
        if switches and not share:
            continue
        stay = -math.log(1 - share + share / count)
        path = begin + max(labels - starts - switches, 0) * stay
        if switches:
            path += switches * math.log(count / share)
        start = always + path / rate
        late = components.late_belief + float(components.late[index])
        if best is None or start + late < best.start + best.late:
            best = Bound(start + late, math.inf, start, late, rate, share)
    if best is None:
        raise LarcError("no component has a share; a bound against switches needs one above 0.")
    if switches or each_context:
        return best
    worst = worst_case(count, outstanding)
    return Bound(min(best.total, worst), worst, best.start, best.late, best.rate, best.share)
