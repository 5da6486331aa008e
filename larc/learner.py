"""A learner: begins fast states, reads and updates many of them in shared physical batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, overload

import torch
from torch import Tensor

from larc.checks import instance, tuples, whole_number
from larc.episodes import EPISODE_FILE, Episode, check_together
from larc.errors import LarcError
from larc.feedback import Feedback
from larc.generation import active, batches, checked_prompt, generate
from larc.io.states import load_state, whole
from larc.priors import PriorCache
from larc.proposals.sampling import Request, Written, propose
from larc.questions import EncodedQuestion, Limits, ask
from larc.residual import Factors
from larc.rules import SGD, parse_rule, rule_facts
from larc.scoring import chunks, energies, policy
from larc.state import SlowState
from larc.stepping import Extras, UpdateRule
from larc.substrate.frozen import Substrate
from larc.updates import Moved, Step, Update, check_all_moved, feedback_list, take_steps

__all__ = ["Episode", "Learner", "ReadRequest", "Refusals", "Update", "UpdateRequest"]

#: What becomes of a refusal in a shared batch: it is raised, or returned in its place.
Refusals = Literal["raise", "return"]


#: An episode with the prompt and the candidates that it reads.
ReadRequest = tuple[Episode, str, Sequence[str]]
#: An episode with the feedback that it learns from.
UpdateRequest = tuple[Episode, Feedback | Sequence[Feedback]]


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
        instance(substrate, "substrate", Substrate)
        instance(slow, "slow", SlowState)
        if limits is not None:
            instance(limits, "limits", Limits)
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

    def __repr__(self) -> str:
        return f"<Learner on {self.substrate.name!r}, {self.slow!r}, {self.rule!r}>"

    def begin(
        self, seed: int = 0, *, slow: SlowState | None = None, rule: UpdateRule | None = None
    ) -> Episode:
        """Begin an episode: a private copy of the slow factors, and a random stream of its own.

        Parameters
        ----------
        seed
            Of its random stream.
        slow
            Another slow state of this substrate to start from.
        rule
            Another rule to move by.
        """
        return Episode(self, seed, slow, rule)

    @overload
    def read_many(
        self, requests: Sequence[ReadRequest], *, refusals: Literal["raise"] = "raise"
    ) -> list[Tensor]: ...

    @overload
    def read_many(
        self, requests: Sequence[ReadRequest], *, refusals: Literal["return"]
    ) -> list[Tensor | LarcError]: ...

    def read_many(
        self, requests: Sequence[ReadRequest], *, refusals: Refusals = "raise"
    ) -> list[Tensor] | list[Tensor | LarcError]:
        """Return each episode's policy on its own question, in shared physical batches.

        Parameters
        ----------
        requests
            Episodes, each with a prompt and its candidates.
        refusals
            ``raise`` to raise the first refusal; ``return`` to answer all other requests and have
            a refused one's `LarcError` in its place.

        Returns
        -------
        list of Tensor
            Probabilities as float32 tensors on the CPU, one per request, with no gradient.
        """
        requests = tuples(requests, ("an episode", "a prompt", "its candidates"))
        asked: list[tuple[Episode, EncodedQuestion] | LarcError] = []
        for number, (episode, prompt, candidates) in enumerate(requests):
            try:
                check_together(self.slow, [episode], number)
                asked.append((episode, ask(self.substrate, prompt, candidates, self.limits)))
            except LarcError as refusal:
                if refusals == "raise":
                    raise
                asked.append(refusal)
        good = [
            (*one, tuple(candidates))
            for one, (_, _, candidates) in zip(asked, requests, strict=True)
            if not isinstance(one, LarcError)
        ]
        policies = iter(self._policies(good))
        answers = [one if isinstance(one, LarcError) else next(policies) for one in asked]
        if refusals == "raise":
            for answer in answers:
                if isinstance(answer, LarcError):
                    raise answer
        return answers

    def _policies(
        self, requests: Sequence[tuple[Episode, EncodedQuestion, tuple[str, ...]]]
    ) -> list[Tensor | LarcError]:
        if not requests:
            return []
        states = list({id(episode): episode for episode, _, _ in requests}.values())
        number = {id(episode): index for index, episode in enumerate(states)}
        stack = Factors.stack([episode.factors for episode in states])
        # The same question to the same state is read once, however often it is asked.
        asked = [(number[id(episode)], question) for episode, question, _ in requests]
        distinct = list(dict.fromkeys(asked))
        texts = {read: request[2] for read, request in zip(asked, requests, strict=True)}
        policies: dict[tuple[int, EncodedQuestion], Tensor] = {}
        normalise = self.slow.normalise
        priors = self._priors.read(stack, distinct) if normalise == "prior" else {}
        with torch.no_grad():
            for chunk in chunks(self.substrate, [question for _, question in distinct]):
                reads = [distinct[index] for index in chunk]
                scores = energies(
                    self.substrate,
                    [question for _, question in reads],
                    stack,
                    self.slow.boundary,
                    owners=[owner for owner, _ in reads],
                    summed=normalise == "sum",
                )
                for read, score in zip(reads, scores, strict=True):
                    if priors:
                        score = score - priors[read]
                    private = states[read[0]].extras.offsets
                    if private:
                        score = score + score.new_tensor([private.get(t, 0.0) for t in texts[read]])
                    policies[read] = policy(score).cpu()
        return [_finite(number, policies[read]) for number, read in enumerate(asked)]

    def propose_many(self, requests: Sequence[tuple[Episode, Request]]) -> list[Written]:
        """Write texts under each episode's own factors, in shared calls of the model."""
        requests = tuples(requests, ("episode", "request"))
        for _, request in requests:
            instance(request, "a request", Request)
        episodes = [episode for episode, _ in requests]
        check_together(self.slow, episodes)
        return propose(
            self.substrate,
            self.slow.boundary,
            [episode.factors for episode in episodes],
            [request for _, request in requests],
            self.limits,
        )

    def prompt_length(self, prompt: str) -> int:
        """Return how many tokens a prompt has."""
        return len(ask(self.substrate, prompt, ["."], self.limits).prompt)

    @overload
    def update_many(
        self, updates: Sequence[UpdateRequest], *, refusals: Literal["raise"] = "raise"
    ) -> list[Update]: ...

    @overload
    def update_many(
        self, updates: Sequence[UpdateRequest], *, refusals: Literal["return"]
    ) -> list[Update | LarcError]: ...

    def update_many(
        self, updates: Sequence[UpdateRequest], *, refusals: Refusals = "raise"
    ) -> list[Update] | list[Update | LarcError]:
        """Take one step for each episode on its own feedback, in shared physical batches.

        Each episode moves by its own rule; those of one rule share their batches.

        Parameters
        ----------
        updates
            Episodes, each with its feedback.
        refusals
            ``raise``: either every episode moves or, if anything is refused, none does.
            ``return``: every other episode moves, and a refused one's `LarcError` is in its place.
        """
        updates = tuples(updates, ("an episode", "its feedback"))
        if len({id(episode) for episode, _ in updates}) < len(updates):
            raise LarcError(
                "an episode appears twice in one update; give it all of its feedback as one list."
            )
        results: dict[int, Moved | LarcError] = {}
        steps: list[Step] = []
        for number, (episode, given) in enumerate(updates):
            try:
                feedback = self._checked_feedback(number, episode, given)
            except LarcError as refusal:
                if refusals == "raise":
                    raise
                results[number] = refusal
                continue
            # Episodes that have not moved yet are at one state, and share what is computed there.
            mark = id(episode.slow) if episode.step == 0 else (id(episode.slow), number)
            steps.append(
                Step(
                    number,
                    episode.rule,
                    episode.factors,
                    feedback,
                    episode.slow.factors,
                    episode.step,
                    episode.extras,
                    mark,
                )
            )
        results |= take_steps(
            self.substrate, self.slow.boundary, self.limits, steps, self.slow.normalise
        )
        if refusals == "raise":
            check_all_moved(results)
        done: list[Update | LarcError] = []
        for number, (episode, _) in enumerate(updates):
            result = results[number]
            if isinstance(result, LarcError):
                done.append(result)
                continue
            episode.factors, episode.extras = result.factors, result.extras
            episode.step += 1
            done.append(result.update)
        moved = [one for one in done if isinstance(one, Update)]
        self.substrate.ledger.check([one.loss for one in moved], [one.after for one in moved])
        return done

    def _checked_feedback(
        self, number: int, episode: Episode, given: Feedback | Sequence[Feedback]
    ) -> list[Feedback]:
        """Return feedback as a list, refusing what cannot be learned from."""
        check_together(self.slow, [episode], number)
        feedback = feedback_list(given)
        for piece in feedback:
            ask(self.substrate, piece.prompt, piece.candidates, self.limits)
        return feedback

    def resume(self, path: str | Path) -> Episode:
        """Return a saved episode where it stopped, refusing one bound to anything else."""
        tensors, facts = load_state(path, EPISODE_FILE)
        with whole(path, EPISODE_FILE):
            return self.restored(path, tensors, facts)

    def restored(self, path: str | Path, tensors: Mapping[str, Tensor], facts: Any) -> Episode:
        """Return the episode of a file's tensors and facts, refusing one bound to anything else."""
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
        episode.extras = Extras.read(facts)
        episode.step = int(facts["step"])
        episode.stream.bit_generator.state = facts["stream"]
        return episode

    @contextmanager
    def active(self, episode: Episode) -> Iterator[None]:
        """Run the model itself under an episode's factors, for generation or any other call.

        It holds for calls from this thread, and from this task of an event loop: others may have
        blocks of their own. Of nested blocks the innermost holds. Reads and updates inside the
        block are what they are outside it.

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
        check_together(self.slow, [episode])
        with active(self.substrate, self.slow.boundary, lambda: episode.factors):
            yield

    def generate(
        self,
        requests: Sequence[tuple[Episode, str]],
        *,
        max_new_tokens: int = 64,
        **options: Any,
    ) -> list[str]:
        """Continue prompts, each under its own episode's factors, in shared physical batches.

        Parameters
        ----------
        requests
            Episodes and the prompts they are to continue; an episode may come several times.
        max_new_tokens
            The most tokens of each continuation.
        options
            For the model's own ``generate``, such as ``num_beams=4``. The most probable token is
            taken by default.

        Examples
        --------
        >>> import larc
        >>> substrate = larc.load_substrate("tiny")
        >>> learner = larc.Learner(substrate, larc.SlowState.initial(substrate, seed=1))
        >>> episode, other = learner.begin(), learner.begin()
        >>> [len(text) for text in learner.generate([(episode, "a"), (other, "b")],
        ...                                         max_new_tokens=3)]
        [3, 3]
        """
        requests = tuples(requests, ("an episode", "a prompt"))
        most = whole_number(max_new_tokens, "max_new_tokens", least=1)
        check_together(self.slow, [episode for episode, _ in requests])
        prompts = [checked_prompt(self.substrate, p, self.limits, most) for _, p in requests]
        texts = [""] * len(requests)
        for chunk in batches([len(prompt) + most for prompt in prompts], self.substrate):
            stack = Factors.stack([requests[index][0].factors for index in chunk])
            rows = [prompts[index] for index in chunk]
            made = generate(self.substrate, self.slow.boundary, stack, rows, most, options)
            for index, continued in zip(chunk, made, strict=True):
                texts[index] = continued
        return texts


def _finite(number: int, probabilities: Tensor) -> Tensor | LarcError:
    if bool(probabilities.isfinite().all()):
        return probabilities.clone()
    return LarcError(
        f"the state of request {number} gives no numbers (NaN): it moved too far; reset it and "
        "take smaller steps."
    )
