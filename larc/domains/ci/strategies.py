"""The strategies of the paper on continuous-integration jobs, offline and live."""

from __future__ import annotations

from larc.domains.ci.prompter import REMEMBERED
from larc.stream.prompter import PLAIN
from larc.stream.strategies import Strategy

#: With and without earlier cases in the prompt, kept and reset, and a sham that learns permuted
#: labels; all start from one trained state.
TRAINED = (
    Strategy("P0M0", PLAIN, "reset"),
    Strategy("P1M0", PLAIN, "keep"),
    Strategy("P0M1", REMEMBERED, "reset"),
    Strategy("P1M1", REMEMBERED, "keep"),
    Strategy("PERM_M1", REMEMBERED, "keep", sham=True),
)
