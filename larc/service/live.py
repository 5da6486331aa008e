"""A stream in memory: its controller, and the counts that are shown of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import Row

from larc.errors import LarcError
from larc.service.problems import Problem
from larc.service.protocol import TemplateSpec, loss_of
from larc.service.store.log import as_question
from larc.service.templates import MIXTURE, Models, Start
from larc.stream.controller import Answer, Controller
from larc.stream.question import Question


@dataclass
class Live:
    """One stream, as far as its events are applied.

    Attributes
    ----------
    number, name, shard
        Whose it is.
    spec, template, start
        What it was made from, or has been moved to since.
    controller
        What it has learned, and what is awaited.
    applied
        The number of the last event in it.
    version
        The number of the last event that changed what it would answer.
    """

    number: int
    name: str
    shard: int
    spec: str
    template: TemplateSpec
    start: Start
    controller: Controller
    applied: int
    version: int
    asked: int
    labelled: int
    awaited: int
    mode: str
    summary: dict[str, Any]

    def values(self) -> dict[str, Any]:
        """Return the columns of the stream's row that a step may have changed."""
        # The bound and the regrets that it holds for, of one moment.
        self.summary["bound"] = self.controller.bound().total
        self.summary["regrets"] = self.controller.forecaster.regrets()
        return {
            "version": self.version,
            "asked": self.asked,
            "labelled": self.labelled,
            "awaited": self.awaited,
            "mode": self.mode,
            "summary": json.dumps(self.summary, separators=(",", ":")),
        }

    def body(self) -> bytes:
        """Return everything the next event depends on."""
        return self.controller.to_bytes()

    def score(self, answer: Mapping[str, Any], value: int | tuple[float, ...], by: int = 1) -> None:
        """Add the losses of an answer under its label, or with ``by`` -1 take them back."""
        if not answer["scored"]:
            return
        sums = self.summary.setdefault("losses" if isinstance(value, int) else "risks", {})
        shown = {**answer["said"], MIXTURE: answer["mixture"]}
        for name, probabilities in shown.items():
            one = sums.setdefault(name, {"sum": 0.0, "count": 0})
            one["sum"] += by * loss_of(probabilities, value)
            one["count"] += by

    def show(self, weights: Mapping[str, float]) -> None:
        """Keep what is shown of trust."""
        self.summary["weights"] = dict(weights)

    def answer(self, event: Row[Any], given: Answer, *, scored: bool) -> dict[str, Any]:
        """Return the answer to a question, as it is kept and sent."""
        mixture = [float(p) for p in given.forecast.probabilities]
        policies = {name: [float(p) for p in policy] for name, policy in given.said.items()}
        shown = mixture
        if self.mode == "observe":
            shown = policies.get(self.shown_in_observe, [1 / len(mixture)] * len(mixture))
        return {
            "id": event.key,
            "seq": event.seq,
            "probabilities": shown,
            "state_version": self.version,
            "weights": {name: float(part) for name, part in given.forecast.weights.items()},
            "said": policies,
            "mixture": mixture,
            "mode": self.mode,
            "scored": scored,
        }

    @property
    def shown_in_observe(self) -> str:
        """Whose word is shown while the stream only observes: the caller's, or nobody's state."""
        resting = [one.name for one in self.template.strategies if one.retention == "reset"]
        return next(iter([*self.template.given, *resting]), "")


@dataclass(frozen=True)
class Asked:
    """A question of the log, ready to be put to a controller."""

    event: Row[Any]
    question: Question
    experts: Mapping[str, Sequence[float]]
    context: str


def asked(event: Row[Any], template: TemplateSpec) -> Asked:
    """Return the question of an event, refusing one without the experts its stream needs."""
    body = json.loads(event.body)
    experts = body.get("experts", {})
    if set(experts) != set(template.given):
        raise Problem(
            "invalid",
            f"the stream's template takes the experts {template.given}, and the question has "
            f"{sorted(experts)}; give their probabilities.",
        )
    if template.domain == "ci" and "job" not in body:
        raise Problem("invalid", "the stream is of CI jobs; they come from GitHub's webhooks.")
    return Asked(event, as_question(event.key, body), experts, body.get("context", ""))


def revive(models: Models, row: Row[Any], body: bytes | None, spec: str = "") -> Live:
    """Return a stream as it was committed last; or, with its spec then, as it was earlier."""
    template, start = models.checked(spec or row.spec)
    controller = models.controller(template, start, row.id)
    if body is not None:
        try:
            controller.from_bytes(body)
        except Exception as error:  # whatever is in it, it is this stream's alone to suffer from
            what = error if isinstance(error, LarcError) else type(error).__name__
            raise Problem("damaged", f"the state of {row.name!r} is damaged: {what}") from error
    return Live(
        row.id,
        row.name,
        row.shard,
        spec or row.spec,
        template,
        start,
        controller,
        row.applied_seq,
        row.version,
        row.asked,
        row.labelled,
        row.awaited,
        row.mode,
        json.loads(row.summary),
    )
