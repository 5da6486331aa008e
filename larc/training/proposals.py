"""Slow training through proposals: starts from which few rounds of judged texts suffice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from larc.checks import listed
from larc.errors import LarcError
from larc.feedback import CandidateLosses
from larc.io.hashes import hash_json
from larc.learner import Learner
from larc.objectives import FeedbackObjective
from larc.proposals.grammar import Grammar
from larc.proposals.improving import (
    Improvement,
    ImproveSettings,
    Judge,
    learn_together,
    propose_together,
)
from larc.questions import Limits
from larc.residual import Factors
from larc.state import SlowState
from larc.substrate.frozen import Substrate
from larc.training.base import SlowTrainer, batch_indices

if TYPE_CHECKING:
    from larc.training.tasks import TrainingSettings


@dataclass(frozen=True)
class ProposalTask:
    """A problem whose answers the model writes itself.

    Parameters
    ----------
    prompt
        What it goes on from.
    judge
        Gives texts the losses that an episode learns from.
    query
        Gives texts the losses that the slow state is trained with: of what is asked later.
    name
        Tells it from others: a checkpoint is bound to names, since judges cannot be compared.
    answers
        Texts that are known to be right. They are never learned from; with the query they are read
        beside what was proposed, so that there is something to reach for.
    grammar
        What texts are allowed; all by default.
    """

    prompt: str
    judge: Judge
    query: Judge
    name: str
    answers: Sequence[str] = ()
    grammar: Grammar | None = None


class ProposalTrainer(SlowTrainer):
    """Trains a slow state across problems, each searched for some rounds from it.

    Parameters
    ----------
    substrate, slow, tasks
        The frozen model, where training starts, and the problems.
    settings
        Those of every training; ``inner_steps`` is not used, and there is no exact objective.
    proposals
        How an episode searches; its ``rounds`` bound it.
    limits
        The token limits.
    """

    def __init__(
        self,
        substrate: Substrate,
        slow: SlowState,
        tasks: Iterable[ProposalTask],
        settings: TrainingSettings,
        proposals: ImproveSettings,
        limits: Limits | None = None,
    ) -> None:
        super().__init__(substrate, slow, settings.outer, limits)
        self.tasks = listed(tasks, "the tasks")
        if not self.tasks or not all(isinstance(task, ProposalTask) for task in self.tasks):
            raise LarcError("training through proposals needs ProposalTasks; give at least one.")
        if len({task.name for task in self.tasks}) < len(self.tasks):
            raise LarcError("two tasks have the same name; give each one of its own.")
        if settings.objective == "exact" or settings.step_rate:
            raise LarcError(
                "what a model writes cannot be differentiated: proposals are trained with the "
                "adapted or the static objective, and without a step rate."
            )
        self.settings, self.proposals = settings, proposals
        learner = Learner(substrate, slow, settings.rule, limits=limits)
        for task in self.tasks:
            learner.prompt_length(task.prompt)  # refuses one that is too long

    def facts(self) -> dict[str, Any]:
        """Return what this training depends on: also the settings and the problems."""
        tasks = [
            [t.name, t.prompt, list(t.answers), t.grammar and t.grammar.rules] for t in self.tasks
        ]
        return {
            "settings": self.settings.facts(),
            "proposals": asdict(self.proposals),
            "tasks": hash_json(tasks),
            **super().facts(),
        }

    def batch_gradient(self) -> tuple[float, Factors]:
        """Return the next batch's mean query loss and its gradient at the slow factors."""
        how = self.settings
        indices = batch_indices(len(self.tasks), how.batch, self.updates, how.seed)
        tasks = [self.tasks[index] for index in indices]
        ledger = self.substrate.ledger
        with ledger.operation("support"):
            searches = self._searched(tasks)
        feedback = [[_query(t, s)] for t, s in zip(tasks, searches, strict=True)]
        objective = FeedbackObjective.of(
            self.substrate, self.slow.boundary, feedback, self.limits, share_key=range(len(tasks))
        )
        adapted = how.objective == "adapted"
        states = [s.episode.factors if adapted else self.slow.factors for s in searches]
        with ledger.operation("query"), torch.inference_mode(False), torch.enable_grad():
            losses, gradients = objective.gradients(Factors.stack(states))
        # As for tasks: the identity for the Jacobian of the steps.
        return float(losses.mean()), gradients.map(lambda tensor: tensor.mean(0))

    def _searched(self, tasks: Sequence[ProposalTask]) -> list[Improvement]:
        """Return a search for each task, as far as its budget goes."""
        learner = Learner(self.substrate, self.slow, self.settings.rule, limits=self.limits)
        searches = []
        for number, task in enumerate(tasks):
            drawn = np.random.SeedSequence([self.settings.seed, self.updates, number])
            seed = int(drawn.generate_state(1, np.uint64)[0])
            searches.append(
                learner.begin(seed).improvement(task.prompt, self.proposals, grammar=task.grammar)
            )
        while not all(search.ended for search in searches):
            texts = propose_together(searches)
            learn_together(
                (search, task.judge(written))
                for search, task, written in zip(searches, tasks, texts, strict=True)
                if written
            )
        return searches


def _query(task: ProposalTask, search: Improvement) -> CandidateLosses:
    texts = list(dict.fromkeys([*task.answers, *(one.text for one in search.judged)]))
    if not texts:
        raise LarcError(f"nothing was written for {task.name!r}; give a larger max_tokens.")
    return CandidateLosses(task.prompt, texts, task.query(texts))
