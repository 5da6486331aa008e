"""What a controller judged lately, so that trust can go back before a wrong label, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from larc.stream.awaited import Pending
from larc.stream.experts import Expert
from larc.stream.log import LearnedBatch, labelled_of, relabelled
from larc.stream.mixing.forecaster import Forecaster
from larc.stream.question import LabelIs


@dataclass(frozen=True, eq=False)
class JudgedBatch:
    """Trust and experts before a batch of labels, and what was asked and dropped after it.

    All of it is JSON values.
    """

    trust: Any = field(repr=False)
    experts: Sequence[Any] = field(repr=False)
    events: tuple[Any, ...] = ()

    def predicted(self, name: str, policies: Mapping[str, Any], context: str) -> JudgedBatch:
        """Return it with one more question that was answered."""
        answers = {who: np.asarray(policy).tolist() for who, policy in policies.items()}
        return replace(self, events=(*self.events, ["predict", name, answers, context]))

    def dropped(self, names: Sequence[str]) -> JudgedBatch:
        """Return it with questions that were dropped."""
        return replace(self, events=(*self.events, ["drop", list(names)]))

    def facts(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"trust": self.trust, "experts": self.experts, "events": self.events}

    @staticmethod
    def from_facts(facts: Any) -> JudgedBatch:
        """Return what `facts` gave."""
        return JudgedBatch(facts["trust"], facts["experts"], tuple(facts["events"]))


def judge(
    forecaster: Forecaster,
    experts: Sequence[Expert],
    batch: Mapping[str, Pending],
    values: Mapping[str, LabelIs],
) -> None:
    """Let experts and trust learn a batch of labels."""
    labelled = labelled_of(batch, values)
    for expert in experts:
        expert.learn(labelled)
    # Held history was never asked, so nobody is judged by it.
    asked = set(forecaster.pending)
    forecaster.learn([(q.name, label) for q, label in labelled if q.name in asked])


def judge_again(
    judged: Mapping[int, JudgedBatch],
    experts: Sequence[Expert],
    entries: Sequence[LearnedBatch],
    name: str,
    value: LabelIs | None,
) -> tuple[Forecaster, dict[int, JudgedBatch]]:
    """Judge batches again with another label, or none, in the first; only experts are changed.

    Returns the forecaster that comes of it, and the batches as they are judged now.
    """
    first = judged[entries[0].number]
    forecaster = Forecaster.from_state(first.trust)
    for expert, state in zip(experts, first.experts, strict=True):
        expert.restore(deepcopy(state))
    again: dict[int, JudgedBatch] = {}
    for entry in entries:
        if entry.number not in judged:  # the session learned it by itself
            continue
        before = [deepcopy(expert.state()) for expert in experts]
        again[entry.number] = replace(
            judged[entry.number], trust=forecaster.state(), experts=before
        )
        entry = relabelled(entry, name, value)
        if entry.values:
            judge(forecaster, experts, entry.batch, entry.values)
        for kind, *event in again[entry.number].events:
            forecaster.predict(*event) if kind == "predict" else forecaster.drop(*event)
    return forecaster, again
