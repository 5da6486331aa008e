"""What an episode can do with what it writes: propose texts, and improve by a judge's losses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from larc.errors import LarcError
from larc.proposals.grammar import Grammar
from larc.proposals.improving import Improvement, ImproveSettings, Judge, improve
from larc.proposals.sampling import Proposal, Request, Written
from larc.residual import Factors, checked_seed
from larc.stepping import Extras, UpdateRule


class Writer:
    """The part of an `larc.learner.Episode` that writes.

    It is below the learner, and knows no more of an episode than this.
    """

    factors: Factors
    extras: Extras
    rule: UpdateRule
    step: int
    seed: int
    stream: np.random.Generator

    @property
    def learner(self) -> Any:
        """The learner it was begun from."""
        raise NotImplementedError

    def facts(self) -> dict[str, Any]:
        """Return what it is besides its factors, and what it is bound to, as JSON values."""
        raise NotImplementedError

    def propose(
        self,
        prompt: str,
        n: int,
        *,
        max_tokens: int = 32,
        temperature: float = 1.0,
        grammar: Grammar | Sequence[str] | None = None,
        seed: int | None = None,
    ) -> list[Proposal]:
        """Write distinct complete texts under the current factors, sampled side by side.

        Parameters
        ----------
        prompt, n
            What is gone on from, and how many texts are wanted; there may be fewer.
        max_tokens, temperature
            The most tokens of a text, its end included, and what logits are divided by.
        grammar
            A `larc.Grammar`, or a choice of texts, that every text belongs to.
        seed
            Decides the draws; by default the episode's private stream does.

        Examples
        --------
        >>> import larc
        >>> substrate = larc.load_substrate("tiny")
        >>> learner = larc.Learner(substrate, larc.SlowState.initial(substrate, seed=1))
        >>> texts = learner.begin().propose("2+2=", 2, grammar=["3", "4"], seed=1)
        >>> sorted(proposal.text for proposal in texts)
        ['3', '4']
        """
        before = self.stream.bit_generator.state
        try:
            drawn = int(self.stream.integers(2**63)) if seed is None else checked_seed(seed)
            request = Request(prompt, n, max_tokens, temperature, grammar, drawn)
            written: Written = self.learner.propose_many([(self, request)])[0]
        except LarcError:  # a refusal draws nothing
            self.stream.bit_generator.state = before
            raise
        return written.proposals

    def improvement(
        self,
        prompt: str,
        settings: ImproveSettings,
        *,
        grammar: Grammar | Sequence[str] | None = None,
        seed: int | None = None,
    ) -> Improvement:
        """Begin a search whose texts are judged when and by whom it pleases: see `Improvement`."""
        if grammar is not None and not isinstance(grammar, Grammar):
            grammar = Grammar.choice(grammar)
        drawn = self.seed if seed is None else checked_seed(seed)
        return Improvement(self, prompt, settings, grammar, drawn)

    def improve(
        self,
        prompt: str,
        judge: Judge,
        rounds: int | None = None,
        n: int = 8,
        *,
        grammar: Grammar | Sequence[str] | None = None,
        seed: int | None = None,
        checkpoint: str | Path | None = None,
        on_round: Callable[[Improvement], None] | None = None,
        **settings: Any,
    ) -> Improvement:
        """Propose, have a judge score the texts, and learn from it, until one is right.

        Parameters
        ----------
        prompt, judge, rounds, n
            What is gone on from, who gives every text a loss (0 is right), how often at most, and
            how many new texts each time.
        grammar, seed
            As for `propose`; the draws are decided by the episode's seed by default.
        checkpoint
            A file to save to after every step, and to go on from if it is there.
        on_round
            Called after every round.
        settings
            Others of `larc.ImproveSettings`, by name.

        Examples
        --------
        >>> import larc
        >>> substrate = larc.load_substrate("tiny")
        >>> learner = larc.Learner(substrate, larc.SlowState.initial(substrate, seed=1))
        >>> judge = lambda texts: [abs(int(text) - 7) for text in texts]
        >>> digits = list("123456789")
        >>> search = learner.begin().improve("3+4=", judge, rounds=5, n=2, grammar=digits)
        >>> search.solved, search.best.text
        (True, '7')
        """
        how = ImproveSettings(n=n, rounds=rounds, **settings)
        search = self.improvement(prompt, how, grammar=grammar, seed=seed)
        return improve(search, judge, checkpoint=checkpoint, on_round=on_round)
