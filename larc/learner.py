"""Fast states: private copies of a slow state that learn from feedback as it arrives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from larc.errors import LarcError
from larc.feedback import CandidateLosses, Feedback, Label
from larc.io.states import load_state, save_state, whole
from larc.objectives import FeedbackObjective
from larc.priors import PriorCache
from larc.residual import Factors, apply_correction, apply_residual, checked_seed
from larc.rules import SGD, parse_rule, rule_facts
from larc.scoring import (
    EncodedQuestion,
    Limits,
    ask,
    chunks,
    energies,
    policy,
)
from larc.state import SlowState
from larc.stepping import Extras, StepContext, StepResult, UpdateRule, take_step
from larc.substrate.frozen import Substrate
from larc.substrate.views import layer_list, square_weight

EPISODE_FILE = "larc episode, version 1"


@dataclass(frozen=True)
class Update:
    """What one update did.

    Attributes
    ----------
    loss
        The loss before it.
    distance
        How far the factors moved.
    after
        The loss after it, if the rule looked: `Descent` does, `SGD` does not.
    evaluations
        How often the model evaluated the feedback for it.
    """

    loss: float
    distance: float
    after: float | None = None
    evaluations: int = 1


class Episode:
    """One fast state: factors, step count and random stream, all its own.

    Made by `Learner.begin` or `Learner.resume`.

    Attributes
    ----------
    factors : Factors
        The current factors. They are replaced by an update, never changed in place.
    step : int
        How many updates they have had since they were the slow state's.
    extras : Extras
        What its rule keeps beside them, moments and private offsets; nothing for most rules.
    stream : numpy.random.Generator
        The episode's private random numbers.
    slow : SlowState
        The slow state it was begun with, which it resets to.
    """

    def __init__(self, learner: Learner, seed: int) -> None:
        self._learner = learner
        self.slow = learner.slow
        self.rule = learner.rule
        self.seed = seed
        self.reset()

    def reset(self) -> None:
        """Go back to the slow state this episode was begun with, and to the start of its stream."""
        self.forget()
        self.stream: np.random.Generator = np.random.default_rng(self.seed)

    def forget(self) -> None:
        """Go back to the slow state, with the private stream left where it is."""
        self.factors: Factors = self.slow.factors.copy()
        self.step: int = 0
        self.extras: Extras = Extras()

    @property
    def learner(self) -> Learner:
        """The learner that it was begun from."""
        return self._learner

    @property
    def slow_version(self) -> int:
        """The version of the slow state this episode is bound to."""
        return self.slow.version

    def read(self, prompt: str, candidates: Sequence[str]) -> Tensor:
        """Return the probability of each candidate under the current factors."""
        return self._learner.read_many([(self, prompt, candidates)])[0]

    def update(self, feedback: Feedback | Sequence[Feedback]) -> Update:
        """Take one step of the rule on the feedback; several pieces count by their mean."""
        return self._learner.update_many([(self, feedback)])[0]

    def save(self, path: str | Path) -> None:
        """Write the trajectory to one file: factors, step, stream, rule and what it is bound to."""
        facts = {
            "step": self.step,
            "seed": self.seed,
            "stream": self.stream.bit_generator.state,
            "rule": rule_facts(self.rule),
            "slow_version": self.slow.version,
            "slow": self.slow.digest,
            "substrate": self.slow.substrate,
            "boundary": self.slow.boundary,
            **self.extras.facts(),
        }
        tensors = {"A": self.factors.A, "B": self.factors.B, **self.extras.tensors()}
        save_state(path, EPISODE_FILE, tensors, facts)


class Learner:
    """A frozen model, a slow state and an update rule: what episodes are begun from.

    Parameters
    ----------
    substrate
        The frozen model.
    slow
        Where episodes start; made on this substrate.
    rule
        How they move on feedback; by default the rule that the slow state was trained for, if it
        learned its steps, else `SGD`.
    limits
        The most tokens a prompt and a candidate may have.

    Examples
    --------
    >>> import larc
    >>> substrate = larc.load_substrate("tiny")
    >>> slow = larc.SlowState.initial(substrate, rank=4, seed=2026092811)
    >>> learner = larc.Learner(substrate, slow, rule=larc.SGD(step_size=0.1))
    >>> episode = learner.begin(seed=7)
    >>> before = episode.read("Which is even? ", ["three", "four"])
    >>> update = episode.update(larc.CandidateLosses("Which is even? ", ["three", "four"], [1, 0]))
    >>> after = episode.read("Which is even? ", ["three", "four"])
    >>> bool(after[1] > before[1]), episode.step
    (True, 1)
    """

    def __init__(
        self,
        substrate: Substrate,
        slow: SlowState,
        rule: UpdateRule | None = None,
        *,
        limits: Limits | None = None,
    ) -> None:
        slow.check_fits(substrate)
        self.substrate = substrate
        self.slow = slow
        learned: UpdateRule = SGD() if slow.step_size is None else SGD(slow.step_size)
        if slow.rule:
            learned = parse_rule(slow.rule)
        self.rule: UpdateRule = learned if rule is None else rule
        rule_facts(self.rule)  # refuses one that could not be saved
        self.limits = limits or Limits()
        self._priors = PriorCache(substrate, slow.boundary)

    def begin(self, seed: int = 0) -> Episode:
        """Begin an episode: a private copy of the slow factors, and a random stream of its own."""
        return Episode(self, checked_seed(seed))

    def read_many(self, requests: Sequence[tuple[Episode, str, Sequence[str]]]) -> list[Tensor]:
        """Return each episode's policy on its own question, in shared physical batches.

        Probabilities come as float32 tensors on the CPU, one per request, with no gradient.
        """
        requests = list(requests)
        if not requests:
            return []
        episodes = [episode for episode, _, _ in requests]
        self._check_together(episodes)
        questions = [ask(self.substrate, p, c, self.limits) for _, p, c in requests]
        states = list({id(episode): episode for episode in episodes}.values())
        number = {id(episode): index for index, episode in enumerate(states)}
        stack = Factors.stack([episode.factors for episode in states])
        # The same question to the same state is read once, however often it is asked.
        asked = [(number[id(e)], q) for e, q in zip(episodes, questions, strict=True)]
        distinct = list(dict.fromkeys(asked))
        candidates = {read: texts for read, (_, _, texts) in zip(asked, requests, strict=True)}
        policies: dict[tuple[int, EncodedQuestion], Tensor] = {}
        summed = self.slow.normalise == "sum"
        priors = self._priors.read(stack, distinct) if self.slow.normalise == "prior" else {}
        with torch.no_grad():
            for chunk in chunks(self.substrate, [question for _, question in distinct]):
                reads = [distinct[index] for index in chunk]
                scores = energies(
                    self.substrate,
                    [question for _, question in reads],
                    stack,
                    self.slow.boundary,
                    owners=[owner for owner, _ in reads],
                    summed=summed,
                )
                for read, score in zip(reads, scores, strict=True):
                    prior = priors.get((read[0], read[1].candidates))
                    energy = score if prior is None else score - prior
                    private = states[read[0]].extras.offsets
                    if private:
                        texts = candidates[read]
                        energy = energy + energy.new_tensor([private.get(t, 0.0) for t in texts])
                    policies[read] = policy(energy).cpu()
        return [policies[read].clone() for read in asked]

    def update_many(
        self, updates: Sequence[tuple[Episode, Feedback | Sequence[Feedback]]]
    ) -> list[Update]:
        """Take one step for each episode on its own feedback, in shared physical batches.

        Either every episode moves or, if anything is refused, none does.
        """
        updates = list(updates)
        if not updates:
            return []
        episodes = [episode for episode, _ in updates]
        if len({id(episode) for episode in episodes}) < len(episodes):
            raise LarcError(
                "an episode appears twice in one update; give it all of its feedback as one list."
            )
        self._check_together(episodes)
        for number, episode in enumerate(episodes):
            if episode.rule != self.rule:
                raise LarcError(
                    f"episode {number} is bound to {episode.rule}; "
                    "use the learner it was begun from."
                )
        feedback = [_as_list(pieces) for _, pieces in updates]
        # Episodes that have not moved yet are at one state, and can share what is computed there.
        share_key = [id(e.slow) if e.step == 0 else (id(e.slow), n) for n, e in enumerate(episodes)]
        objective = FeedbackObjective.of(
            self.substrate,
            self.slow.boundary,
            feedback,
            self.limits,
            share_key,
            normalise=self.slow.normalise,
            offsets=[e.extras.offsets for e in episodes],
        )
        before = Factors.stack([episode.factors for episode in episodes])
        after = take_step(self.rule, objective, before, context_of(episodes, before))
        extras = _extras(self.rule, objective, after, [episode.extras for episode in episodes])
        finite = after.factors.finite() & after.losses.isfinite()
        if not bool(finite.all()):
            refused = [number for number, good in enumerate(finite.tolist()) if not good]
            raise LarcError(
                f"the update of episode {refused} of this batch is not finite and no episode was "
                "changed; take smaller steps or reset it."
            )
        moved = after.factors.combine(before, torch.sub).norm().tolist()
        for number, episode in enumerate(episodes):
            episode.factors = after.factors.at(number).copy()
            episode.extras = extras[number]
            episode.step += 1
        losses, reached = after.losses.tolist(), after.reached()
        self.substrate.ledger.check(losses, reached)
        spent = [1] * len(episodes) if after.evaluations is None else after.evaluations.tolist()
        return [Update(*one) for one in zip(losses, moved, reached, spent, strict=True)]

    def resume(self, path: str | Path) -> Episode:
        """Return a saved episode where it stopped, refusing one bound to anything else."""
        tensors, facts = load_state(path, EPISODE_FILE)
        with whole(path, EPISODE_FILE):
            return self._resumed(path, tensors, facts)

    def _resumed(self, path: str | Path, tensors: Mapping[str, Tensor], facts: Any) -> Episode:
        expected = {
            "substrate": (self.slow.substrate, "another substrate"),
            "boundary": (self.slow.boundary, "another boundary"),
            "slow_version": (self.slow.version, "another slow version"),
            "slow": (self.slow.digest, "another slow state of the same version"),
            "rule": (rule_facts(self.rule), "another update rule"),
        }
        for fact, (wanted, problem) in expected.items():
            if facts.get(fact) != wanted:
                raise LarcError(
                    f"{path} is bound to {problem} ({facts.get(fact)}, and this learner has "
                    f"{wanted}); resume it with the learner it was begun from."
                )
        factors = Factors(tensors["A"], tensors["B"]).to(self.substrate.device)
        if factors.A.shape != self.slow.factors.A.shape:
            raise LarcError(
                f"{path} has factors of rank {factors.rank} and width {factors.width}; this "
                f"learner has {self.slow.factors.rank} and {self.slow.factors.width}."
            )
        episode = self.begin(facts["seed"])
        episode.factors = factors
        episode.extras = Extras.read(tensors, facts)
        episode.step = int(facts["step"])
        episode.stream.bit_generator.state = facts["stream"]
        return episode

    @contextmanager
    def active(self, episode: Episode) -> Iterator[None]:
        """Run the model itself under an episode's factors, for generation or any other call.

        Reads and updates inside the block are what they are outside it.

        Examples
        --------
        >>> import larc, torch
        >>> substrate = larc.load_substrate("tiny")
        >>> learner = larc.Learner(substrate, larc.SlowState.initial(substrate, seed=1))
        >>> ids = substrate.tokenizer("hello", return_tensors="pt")["input_ids"]
        >>> plain = substrate.model(ids).logits
        >>> with learner.active(learner.begin()):
        ...     torch.equal(substrate.model(ids).logits, plain)   # B = 0: the identity
        True
        """
        self._check_together([episode])
        substrate, model = self.substrate, self.substrate.model
        if substrate.acts_on:

            def corrected(_: Any, args: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
                if substrate.computing:
                    return None
                return apply_correction(output, args[0], episode.factors)

            weight = square_weight(model, self.slow.boundary, substrate.acts_on)
            hook = weight.register_forward_hook(corrected)
        elif self.slow.boundary == 0:

            def embedded(_: Any, __: Any, output: Tensor) -> Tensor | None:
                return None if substrate.computing else apply_residual(output, episode.factors)

            hook = model.get_input_embeddings().register_forward_hook(embedded)
        else:

            def enter(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
                if substrate.computing:
                    return None
                if args:
                    return (apply_residual(args[0], episode.factors), *args[1:]), kwargs
                moved = apply_residual(kwargs["hidden_states"], episode.factors)
                return args, {**kwargs, "hidden_states": moved}

            layer = layer_list(model)[1][self.slow.boundary]
            hook = layer.register_forward_pre_hook(enter, with_kwargs=True)
        try:
            yield
        finally:
            hook.remove()

    def _check_together(self, episodes: Sequence[Episode]) -> None:
        """Refuse episodes that cannot be computed in one batch of this learner."""
        expected = self.slow
        for number, episode in enumerate(episodes):
            slow = episode.slow
            if (slow.substrate, slow.boundary) != (expected.substrate, expected.boundary):
                raise LarcError(
                    f"episode {number} belongs to another substrate or boundary; "
                    "use the learner it was begun from."
                )
            if slow.normalise != expected.normalise:
                raise LarcError(
                    f"episode {number} scores by {slow.normalise} and this learner by "
                    f"{expected.normalise}; use the learner it was begun from."
                )
            if episode.factors.A.shape != expected.factors.A.shape:
                raise LarcError(
                    f"episode {number} has factors of rank {episode.factors.rank} and width "
                    f"{episode.factors.width}; this learner has {expected.factors.rank} and "
                    f"{expected.factors.width}."
                )


def _as_list(feedback: Feedback | Sequence[Feedback]) -> list[Feedback]:
    pieces: list[Any] = list(feedback) if isinstance(feedback, list | tuple) else [feedback]
    if not pieces:
        raise LarcError("an update was asked for with no feedback; give at least one piece.")
    for piece in pieces:
        if not isinstance(piece, CandidateLosses | Label):
            raise LarcError(
                f"feedback of type {type(piece).__name__} was given; "
                "give CandidateLosses or a Label, or a list of them."
            )
    return pieces


def context_of(episodes: Sequence[Episode], factors: Factors) -> StepContext:
    """Return what a rule may go by, for a stack of episodes."""
    slow = Factors.stack([episode.slow.factors for episode in episodes])
    taken = torch.tensor([episode.step for episode in episodes], device=factors.A.device)
    return StepContext(slow, taken, Extras.stacked([e.extras for e in episodes], factors))


def _extras(
    rule: UpdateRule, objective: FeedbackObjective, after: StepResult, extras: Sequence[Extras]
) -> list[Extras]:
    """Return what episodes keep beside their factors after an update."""
    size = getattr(rule, "offset_size", 0.0)
    slopes = objective.offset_slopes() if size else [{}] * len(extras)
    return [
        Extras(
            {name: moment[number].detach().clone() for name, moment in after.moments.items()},
            one.moved(slopes[number], size) if size else one.offsets,
        )
        for number, one in enumerate(extras)
    ]
