"""Ways in which a state answers a stream: where it starts, how it is scored, what it keeps."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from typing import Any

from larc.stream.strategies import Retention

UNTRAINED, STATIC = "untrained", "static"
OFFSETS = ":offset_size="
#: In place of a rule: the one that was learned with the start.
LEARNED = "learned"


def training_name(data: str, score: str, objective: str, seed: int) -> str:
    """Return the name of the unit that trains a start.

    Examples
    --------
    >>> training_name("tickets", "mean", "static", 7)
    'train-tickets-mean-static-7'
    """
    return f"train-{data}-{score}-{objective}-{seed}"


@dataclass(frozen=True)
class Way:
    """One way to answer with a state inside the frozen model.

    Attributes
    ----------
    start
        The objective that its start was trained by, or ``untrained``.
    score
        How candidates are scored: ``mean`` or ``prior``.
    retention, rule, sham
        What it keeps of its labels, how it learns from them (``learned``: by the rule that was
        learned with the start), and whether they are permuted.
    cases
        Whether its prompts show recent labelled cases of the stream.

    Examples
    --------
    >>> Way("static", rule="sgd:0.02", cases=True).name
    'static-mean-keep-sgd-0.02-cases'
    """

    start: str
    score: str = "mean"
    retention: Retention = "keep"
    rule: str = ""
    sham: bool = False
    cases: bool = False

    @property
    def name(self) -> str:
        """What its unit is called."""
        marks = [mark for mark in ("sham", "cases") if getattr(self, mark)]
        parts = [self.start, self.score, self.retention, self.rule, *marks]
        return re.sub(r"[^a-z0-9.-]+", "-", "-".join(filter(None, parts)))

    @property
    def offsets(self) -> bool:
        """Whether a private bias for each candidate is learned with the state."""
        return OFFSETS in self.rule

    @property
    def offset_size(self) -> float:
        """The step of that bias; 0 where there is none."""
        return float(self.rule.partition(OFFSETS)[2] or 0)

    def with_offsets(self, size: float) -> Way:
        """Return the same way with a private bias that moves by steps of a size; 0 for none.

        Examples
        --------
        >>> Way("static", rule="sgd:0.02").with_offsets(0.4).rule
        'sgd:0.02:offset_size=0.4'
        """
        rule = self.rule.split(OFFSETS)[0]
        return replace(self, rule=f"{rule}{OFFSETS}{size:g}" if size else rule)

    def rule_with(self, learned: str) -> str:
        """Return the rule, given the one that was learned with the start.

        Examples
        --------
        >>> Way("exact", rule="learned:offset_size=0.4").rule_with("sgd:0.03")
        'sgd:0.03:offset_size=0.4'
        """
        return learned + self.rule.removeprefix(LEARNED) if self.rule[:7] == LEARNED else self.rule

    @property
    def seedless(self) -> bool:
        """Whether it answers alike with every seed: an untrained start changes nothing."""
        return self.start == UNTRAINED and not self.learns

    @property
    def learns(self) -> bool:
        """Whether labels change it."""
        return self.retention != "reset"

    @property
    def at_reset(self) -> Way:
        """The same way, read at its start: it has no rule and learns nothing."""
        return replace(self, retention="reset", rule="", sham=False)

    def facts(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)


#: Names of what a way does from the middle of a stream on: learn no more, or begin anew.
FROZEN, AGAIN = "FROZEN", "AGAIN"


def test_ways(chosen: Way, kept: dict[str, Way], offset_size: float) -> dict[str, Way]:
    """Return what is compared on test streams, by name: the chosen way and what differs in one way.

    Parameters
    ----------
    chosen
        The best way on validation streams.
    kept
        For each start and score the best way that keeps, ``"static prior"`` for instance.
    offset_size
        The best step of private offsets, where the chosen way has none.

    Examples
    --------
    >>> best = Way("static", "prior", rule="sgd:0.02")
    >>> other = Way("first-order", "prior", rule="sgd:0.05")
    >>> list(test_ways(best, {"static prior": best, "first-order prior": other}, 0.4))
    ['RESET', 'KEEP', 'LATEST', 'SHAM', 'CASES RESET', 'CASES KEEP', 'OFFSETS KEEP',
     'UNTRAINED', 'UNTRAINED CASES', 'RESET first-order prior', 'KEEP first-order prior']
    """
    ways = {
        "RESET": chosen.at_reset,
        "KEEP": chosen,
        "LATEST": replace(chosen, retention="latest"),
        "SHAM": replace(chosen, sham=True),
    }
    if chosen.cases:
        ways["PLAIN RESET"] = replace(chosen.at_reset, cases=False)
        ways["PLAIN KEEP"] = replace(chosen, cases=False)
    else:
        ways["CASES RESET"] = replace(chosen.at_reset, cases=True)
        ways["CASES KEEP"] = replace(chosen, cases=True)
    if chosen.offsets:
        ways["KEEP WITHOUT OFFSETS"] = chosen.with_offsets(0)
    else:
        ways["OFFSETS KEEP"] = chosen.with_offsets(offset_size)
    ways["UNTRAINED"] = Way(UNTRAINED, chosen.score, "reset")
    ways["UNTRAINED CASES"] = Way(UNTRAINED, chosen.score, "reset", cases=True)
    for name, way in kept.items():
        if (way.start, way.score) != (chosen.start, chosen.score):
            # Other starts have what the chosen one has: starts alone are compared.
            other = replace(way.with_offsets(chosen.offset_size), cases=chosen.cases)
            ways[f"RESET {name}"] = other.at_reset
            ways[f"KEEP {name}"] = other
    # What is done twice is done once, under its first name.
    first = {way: path for path, way in reversed(ways.items())}
    return {path: way for path, way in ways.items() if first[way] == path}
