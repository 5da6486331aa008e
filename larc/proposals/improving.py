"""Learning from what one wrote: propose, be judged, update; and again until it is solved."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from larc.checks import checked_path, instance
from larc.errors import LarcError
from larc.feedback import CandidateLosses
from larc.io.states import load_state, save_state, whole
from larc.proposals.grammar import Grammar
from larc.proposals.losses import SampledLosses
from larc.proposals.sampling import Proposal, Request
from larc.proposals.settings import ImproveSettings as ImproveSettings
from larc.residual import Factors
from larc.stepping import Extras, UpdateRule

IMPROVEMENT_FILE = "larc improvement, version 1"
JUDGED = "judge"

#: From texts to the loss of each; 0 is solved.
Judge = Callable[[Sequence[str]], Sequence[float]]


class FastState(Protocol):
    """What is improved: an `larc.learner.Episode`."""

    factors: Factors
    extras: Extras
    rule: UpdateRule
    step: int
    stream: np.random.Generator

    def facts(self) -> dict[str, Any]:
        """Return what it is and what it is bound to."""

    @property
    def learner(self) -> Any:
        """The `larc.learner.Learner` it was begun from."""


@dataclass(frozen=True)
class Judged:
    """A proposal, the loss it was given, the round that it is of, and the loss it is learned with.

    The last one is another than it was given where losses are sham ones.
    """

    proposal: Proposal
    loss: float
    round: int
    told: float

    @property
    def text(self) -> str:
        """What was written."""
        return self.proposal.text


@dataclass
class Improvement:
    """A search under way. It can be saved and resumed between any two of its steps.

    Made by `larc.learner.Episode.improvement`; `propose` and `learn` take turns, and the losses may
    come whenever they come.

    Attributes
    ----------
    episode, prompt, settings, grammar, seed
        What is improved, what it goes on from, how, and what decides the draws.
    awaiting
        Texts that were proposed and are not judged yet.
    judged
        All that were, in their order.
    round, positions
        How many rounds were judged, and how many positions they took: also those of draws that
        gave no new text.
    exhausted
        Whether nothing new could be written any more.
    ask
        Gives what the texts of the next round go on from, where that is not the prompt: with what
        was judged so far written out, for one. What is learned is learned at the prompt.
    """

    episode: FastState
    prompt: str
    settings: ImproveSettings
    grammar: Grammar | None = None
    seed: int = 0
    awaiting: list[Proposal] = field(default_factory=list)
    judged: list[Judged] = field(default_factory=list)
    round: int = 0
    positions: int = 0
    exhausted: bool = False
    ask: Callable[[Improvement], str] | None = None

    def __post_init__(self) -> None:
        instance(self.settings, "settings", ImproveSettings)
        estimate = self.settings.estimate
        if estimate == "expected":
            return
        if self.grammar is not None:
            raise LarcError(
                f"a {estimate} estimate is of texts drawn without a grammar; give none, or "
                "estimate='expected'."
            )
        offsets = getattr(self.episode.rule, "offset_size", 0.0)
        if self.episode.learner.slow.normalise != "mean" or offsets:
            raise LarcError(
                f"a {estimate} estimate is of the model's own log-probabilities; give a slow state "
                "normalised by the mean and a rule without offsets, or estimate='expected'."
            )

    @property
    def best(self) -> Judged | None:
        """The text of lowest loss so far, the first of equals."""
        return min(self.judged, key=lambda one: one.loss, default=None)

    @property
    def solved(self) -> bool:
        """Whether a text reached the target."""
        return self.best is not None and self.best.loss <= self.settings.target

    @property
    def ended(self) -> str:
        """Why the search is over: solved, rounds, calls, positions or exhausted; empty if not."""
        how = self.settings
        reasons = {
            "solved": self.solved,
            "exhausted": self.exhausted,
            "rounds": how.rounds is not None and self.round >= how.rounds,
            "calls": how.calls is not None and len(self.judged) >= how.calls,
            "positions": how.positions is not None and self.positions >= how.positions,
        }
        return next((reason for reason, reached in reasons.items() if reached), "")

    def request(self) -> Request:
        """Return what is to be written next: texts that were not judged before."""
        how = self.settings
        left = how.n if how.calls is None else min(how.n, how.calls - len(self.judged))
        draws = np.random.SeedSequence([self.seed, self.round]).generate_state(1, np.uint64)
        return Request(
            self.prompt if self.ask is None else self.ask(self),
            left,
            how.max_tokens,
            how.temperature,
            self.grammar,
            int(draws[0]),
            tuple(one.text for one in self.judged),
        )

    def propose(self) -> list[str]:
        """Return the texts to judge now; the same ones until they are judged."""
        return propose_together([self])[0]

    def learn(self, losses: Sequence[float]) -> None:
        """Take the losses of the texts that are awaited, and learn from them."""
        learn_together([(self, losses)])

    def save(self, path: str | Path) -> None:
        """Write the search to one file: state, texts, losses and what it is bound to."""
        save_together(path, [self])

    def restore(self, path: str | Path) -> None:
        """Go on from a saved point of this same search; a file of another one is refused."""
        restore_together(path, [self])

    def bound(self) -> dict[str, Any]:
        """Return what this search is and another is not, as JSON values."""
        return {
            "prompt": self.prompt,
            "settings": asdict(self.settings),
            "grammar": None if self.grammar is None else self.grammar.rules,
            "seed": self.seed,
        }

    def progress(self) -> dict[str, Any]:
        """Return how far it is, as JSON values."""
        return {
            "awaiting": [asdict(proposal) for proposal in self.awaiting],
            "judged": [asdict(one) for one in self.judged],
            "round": self.round,
            "positions": self.positions,
            "exhausted": self.exhausted,
        }


def save_together(path: str | Path, searches: Sequence[Improvement], notes: Any = None) -> None:
    """Write several searches to one file, with the caller's own notes."""
    tensors: dict[str, Tensor] = {}
    for number, search in enumerate(searches):
        factors = search.episode.factors
        tensors |= {f"{number}.A": factors.A, f"{number}.B": factors.B}
    facts = {
        "searches": [{"episode": s.episode.facts(), **s.bound(), **s.progress()} for s in searches],
        "notes": notes,
    }
    save_state(path, IMPROVEMENT_FILE, tensors, facts)


def restore_together(path: str | Path, searches: Sequence[Improvement]) -> Any:
    """Go on from a saved point of these same searches; returns the notes saved with it."""
    tensors, facts = load_state(path, IMPROVEMENT_FILE)
    with whole(path, IMPROVEMENT_FILE):
        if len(facts["searches"]) != len(searches):
            raise LarcError(f"{path} holds {len(facts['searches'])} searches; give as many.")
        restored = []
        for number, (search, saved) in enumerate(zip(searches, facts["searches"], strict=True)):
            for name, expected in search.bound().items():
                if saved[name] != expected:
                    raise LarcError(
                        f"{path} is of a search with another {name}; remove it to start anew, or "
                        "give what it was started with."
                    )
            its = {"A": tensors[f"{number}.A"], "B": tensors[f"{number}.B"]}
            episode = search.episode.learner.restored(path, its, saved["episode"])
            judged = [
                Judged(**{**one, "proposal": Proposal(**one["proposal"])})
                for one in saved["judged"]
            ]
            awaiting = [Proposal(**one) for one in saved["awaiting"]]
            counts = (int(saved["round"]), int(saved["positions"]), bool(saved["exhausted"]))
            restored.append((episode, awaiting, judged, counts))
        notes = facts["notes"]
    # Everything is read before anything is changed.
    for search, (episode, awaiting, judged, counts) in zip(searches, restored, strict=True):
        search.episode.factors, search.episode.extras = episode.factors, episode.extras
        search.episode.step = episode.step
        search.episode.stream.bit_generator.state = episode.stream.bit_generator.state
        search.awaiting, search.judged = awaiting, judged
        search.round, search.positions, search.exhausted = counts
    return notes


def propose_together(searches: Sequence[Improvement]) -> list[list[str]]:
    """Let several searches of one learner propose in shared calls of the model."""
    asked = [search for search in searches if not search.awaiting and not search.ended]
    if asked:
        learner = asked[0].episode.learner
        requests = [(search.episode, search.request()) for search in asked]
        written = learner.propose_many(requests)
        for search, done in zip(asked, written, strict=True):
            search.awaiting = list(done.proposals)
            search.exhausted = not done.proposals
            search.positions += done.positions
    return [[proposal.text for proposal in search.awaiting] for search in searches]


def learn_together(losses: Iterable[tuple[Improvement, Sequence[float]]]) -> None:
    """Let several searches of one learner take their losses, in shared batches.

    Either all learn or, if anything is refused, none does.
    """
    pairs = [(search, _checked(search, given)) for search, given in losses]
    pairs = [(search, given) for search, given in pairs if search.awaiting]
    if not pairs:
        return
    learner = pairs[0][0].episode.learner
    streams = [search.episode.stream.bit_generator.state for search, _ in pairs]
    after = [[*search.judged, *_new(search, given)] for search, given in pairs]
    learning = [
        (search, _feedback(search, judged))
        for (search, _), judged in zip(pairs, after, strict=True)
        if _learns(search, judged)
    ]
    # Losses that are all the same have no slope, and a rule would follow what rounding leaves.
    learning = [(s, piece) for s, piece in learning if min(piece.losses) < max(piece.losses)]
    spent = {id(search): 0 for search, _ in pairs}
    before = [(s.episode, s.episode.factors, s.episode.extras, s.episode.step) for s, _ in learning]
    try:
        for number in range(max((s.settings.steps for s, _ in learning), default=0)):
            now = [(s, piece) for s, piece in learning if number < s.settings.steps]
            updates = learner.update_many([(s.episode, piece) for s, piece in now])
            for (search, piece), update in zip(now, updates, strict=True):
                texts = len(piece.candidates)
                spent[id(search)] += update.evaluations * _positions(search, piece, texts)
    except BaseException:
        for episode, factors, extras, step in before:
            episode.factors, episode.extras, episode.step = factors, extras, step
        for (search, _), state in zip(pairs, streams, strict=True):
            search.episode.stream.bit_generator.state = state
        raise
    for (search, given), judged in zip(pairs, after, strict=True):
        with learner.substrate.ledger.operation(JUDGED):
            for _ in given:
                learner.substrate.ledger.add(JUDGED, 0, 0)
        search.judged, search.awaiting = judged, []
        search.round += 1
        search.positions += spent[id(search)]


def improve(
    search: Improvement,
    judge: Judge,
    *,
    checkpoint: str | Path | None = None,
    on_round: Callable[[Improvement], None] | None = None,
) -> Improvement:
    """Carry a search out; with a checkpoint it is saved after every step and goes on from there."""
    if not callable(judge) or not (on_round is None or callable(on_round)):
        raise LarcError("a judge and on_round are functions; give functions.")
    if checkpoint is not None and checked_path(checkpoint, "checkpoint").exists():
        search.restore(checkpoint)
    while not search.ended:
        texts = search.propose()
        if checkpoint is not None:
            search.save(checkpoint)
        if not texts:
            break
        search.learn(judge(texts))
        if checkpoint is not None:
            search.save(checkpoint)
        if on_round is not None:
            on_round(search)
    return search


def _checked(search: Improvement, losses: Sequence[float]) -> list[float]:
    try:
        values = [float(loss) for loss in losses]
    except (TypeError, ValueError):
        values = [math.nan]
    if len(values) != len(search.awaiting) or not all(map(math.isfinite, values)):
        raise LarcError(
            f"{len(search.awaiting)} texts are to be judged; give one finite loss for each."
        )
    return values


def _new(search: Improvement, losses: Sequence[float]) -> list[Judged]:
    """Return what a round's losses make of its texts; sham ones are dealt here, and stay so."""
    told = list(losses)
    if search.settings.sham:
        told = search.episode.stream.permutation(np.asarray(losses)).tolist()
    return [
        Judged(proposal, loss, search.round, learned)
        for proposal, loss, learned in zip(search.awaiting, losses, told, strict=True)
    ]


def _learns(search: Improvement, judged: Sequence[Judged]) -> bool:
    """Whether a round is learned from: what is solved has nothing more to learn."""
    how = search.settings
    last = (how.rounds is not None and search.round + 1 >= how.rounds) or (
        how.calls is not None and len(judged) >= how.calls
    )
    solved = min(one.loss for one in judged) <= how.target
    return how.keep and not solved and (how.learn_last or not last)


def _feedback(search: Improvement, judged: Sequence[Judged]) -> CandidateLosses:
    """Return what the round is learned from."""
    how = search.settings
    now = [one for one in judged if one.round == search.round]
    earlier = [one for one in judged if one.round < search.round]
    if how.estimate == "expected":
        earlier.sort(key=lambda one: one.told)
    else:
        earlier.reverse()
    chosen = [*now, *earlier[: max(how.pool - len(now), 0)]]
    texts, losses = [one.text for one in chosen], [one.told for one in chosen]
    if how.estimate == "expected":
        return CandidateLosses(search.prompt, texts, losses)
    sampled = SampledLosses(
        search.prompt, texts, losses, tokens=[one.proposal.tokens for one in chosen]
    )
    if how.estimate == "policy-gradient":
        return sampled
    return replace(sampled, drawn_at=[one.proposal.log_probability for one in chosen])


def _positions(search: Improvement, piece: CandidateLosses, texts: int) -> int:
    known = {one.text: one.tokens for one in search.awaiting}
    known |= {one.text: one.proposal.tokens for one in search.judged}
    # A text's last token is only predicted.
    length: int = search.episode.learner.prompt_length(search.prompt)
    return length + sum(known[text] for text in piece.candidates) - texts
