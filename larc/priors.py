"""Candidates without their question: what a state gives them anyway."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor

from larc.io.hashes import hash_tensors
from larc.questions import EncodedQuestion, prior_question
from larc.residual import Factors
from larc.scoring import chunks, energies
from larc.substrate.frozen import Substrate

# Priors are small; those of this many states and sets of candidates are kept.
_KEPT = 4096


class PriorCache:
    """Reads each state's prior of a set of candidates once.

    A state is known by its factors: after an update or a reset it is asked anew, and one that comes
    back to where it was is not.

    Examples
    --------
    >>> from larc.residual import initial_factors
    >>> from larc.questions import ask
    >>> from larc.substrate import load_substrate
    >>> tiny = load_substrate("tiny")
    >>> cache, asked = PriorCache(tiny, 0), ask(tiny, "2+2=", ["4", "5"])
    >>> stack = Factors.stack([initial_factors(tiny.width, 2, seed=1)])
    >>> cache.read(stack, [(0, asked)])[0, asked].shape
    torch.Size([2])
    """

    def __init__(self, substrate: Substrate, boundary: int) -> None:
        self.substrate, self.boundary = substrate, boundary
        self._kept: OrderedDict[tuple[str, EncodedQuestion], Tensor] = OrderedDict()

    def read(
        self, stack: Factors, reads: Sequence[tuple[int, EncodedQuestion]]
    ) -> dict[tuple[int, EncodedQuestion], Tensor]:
        """Return the prior energies for reads, by the state of the stack and the question."""
        marks = {
            owner: hash_tensors([("A", stack.A[owner]), ("B", stack.B[owner])])
            for owner in {owner for owner, _ in reads}
        }
        # The same candidates after the same last line are one question without its question.
        keys = {
            (owner, question): (marks[owner], prior_question(self.substrate, question))
            for owner, question in reads
        }
        owners = {key: owner for (owner, _), key in keys.items()}
        priors = {key: self._kept[key] for key in owners if key in self._kept}
        missing = [key for key in owners if key not in priors]
        questions = [question for _, question in missing]
        with torch.no_grad():
            for chunk in chunks(self.substrate, questions):
                scores = energies(
                    self.substrate,
                    [questions[index] for index in chunk],
                    stack,
                    self.boundary,
                    owners=[owners[missing[index]] for index in chunk],
                )
                priors |= {missing[i]: score for i, score in zip(chunk, scores, strict=True)}
        for key, prior in priors.items():
            self._kept[key] = prior
            self._kept.move_to_end(key)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return {read: priors[key] for read, key in keys.items()}
