"""Parameter groups: which exist, which were used before, and which split each belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Literal

from larc.domains.programs.recipes import (
    FAMILIES,
    Family,
    Program,
    arithmetic_programs,
    list_programs,
    render,
)
from larc.domains.programs.streams import SPLITS, SUFFIXES, integer, shuffled, words
from larc.errors import LarcError

Pair = tuple[int, int]
Split = Literal["training", "development", "reserved", "preflight", "unused", "historical"]

# Every active pair: (scale, offset) and (minimum, limit). 14 x 25 = 350 and 13 x 6 = 78.
_ACTIVE: Mapping[Family, tuple[Pair, ...]] = {
    "arithmetic": tuple(product([*range(-7, 0), *range(1, 8)], range(-12, 13))),
    "list": tuple(product(range(-6, 7), range(1, 7))),
}

# Pairs seen before the study: by the runs that led to it, or within reach of what generated them.
# They are counted in the paper (105 and 44) but not listed, so their members are a choice made
# here: the plain rectangles that have both counts, small positive scales with small offsets and
# all but the extreme minima with short limits. 7 x 15 = 105 and 11 x 4 = 44.
_HISTORICAL: Mapping[Family, tuple[Pair, ...]] = {
    "arithmetic": tuple(product(range(1, 8), range(-7, 8))),
    "list": tuple(product(range(-5, 6), range(1, 5))),
}

# Groups a family gives to each split, dealt in this order. Lists have no more than these 34.
SPLIT_SIZES: Mapping[Split, int] = {
    "training": 16,
    "development": 8,
    "reserved": 8,
    "preflight": 2,
}

# A suffix comes from the range of the entries it is appended to.
ENTRY_RANGE = (-12, 12)


@dataclass(frozen=True)
class Group:
    """One active parameter pair of a family, with everything that follows from it.

    The split and the suffix are read from the pair and cannot be given, so that no group can be
    relabelled into another split.

    Parameters
    ----------
    family
        ``"arithmetic"`` or ``"list"``.
    pair
        (scale, offset) of an arithmetic group, (minimum, limit) of a list group.

    Examples
    --------
    >>> group = Group("arithmetic", (2, 3))
    >>> group.name, group.split, group.suffix
    ('arithmetic/2,3', 'historical', None)
    >>> group.candidates[1]
    'add 3|mul 2'
    >>> Group("list", (0, 7))
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: (0, 7) is no active pair of the list family; give one of
    active_pairs('list').
    """

    family: Family
    pair: Pair

    def __post_init__(self) -> None:
        if self.pair not in active_pairs(self.family):
            raise LarcError(
                f"{self.pair} is no active pair of the {self.family} family; "
                f"give one of active_pairs({self.family!r})."
            )

    @property
    def name(self) -> str:
        """A stable name: the family and the pair."""
        return f"{self.family}/{self.pair[0]},{self.pair[1]}"

    @property
    def split(self) -> Split:
        """The split all four recipes of this group are in."""
        return _splits(self.family)[self.pair]

    @property
    def suffix(self) -> int | None:
        """The public entry ``append`` adds, one for the group; arithmetic groups have none."""
        return None if self.family == "arithmetic" else _suffix(self.pair)

    @property
    def programs(self) -> tuple[Program, ...]:
        """The four candidate programs in their fixed order."""
        if self.family == "arithmetic":
            return arithmetic_programs(*self.pair)
        return list_programs(*self.pair, _suffix(self.pair))

    @property
    def candidates(self) -> tuple[str, ...]:
        """The texts of the four candidate programs, in the same order."""
        return tuple(map(render, self.programs))


def active_pairs(family: Family) -> tuple[Pair, ...]:
    """Return every pair of parameters a family has.

    Examples
    --------
    >>> len(active_pairs("arithmetic")), len(active_pairs("list"))
    (350, 78)
    """
    if family not in _ACTIVE:
        raise LarcError(f"there is no family {family!r}; give one of {', '.join(FAMILIES)}.")
    return _ACTIVE[family]


def historical_pairs(family: Family) -> tuple[Pair, ...]:
    """Return the pairs that were seen before and are kept out of every split of the study.

    Examples
    --------
    >>> len(historical_pairs("arithmetic")), len(historical_pairs("list"))
    (105, 44)
    """
    active_pairs(family)
    return _HISTORICAL[family]


def remaining_pairs(family: Family) -> tuple[Pair, ...]:
    """Return the pairs left for the study once the historical ones are excluded.

    Examples
    --------
    >>> len(remaining_pairs("arithmetic")), len(remaining_pairs("list"))
    (245, 34)
    """
    seen = set(historical_pairs(family))
    return tuple(pair for pair in active_pairs(family) if pair not in seen)


def split_groups(split: Split) -> tuple[Group, ...]:
    """Return the groups of one split, arithmetic first, each family in the order of its pairs.

    Naming reserved groups is harmless; their episodes are what must stay unbuilt, see
    :func:`larc.domains.programs.episodes.build_episode`.

    Parameters
    ----------
    split
        ``"training"``, ``"development"``, ``"reserved"`` or ``"preflight"``; ``"historical"`` for
        the pairs seen before, ``"unused"`` for the arithmetic pairs no split took.

    Examples
    --------
    >>> [len(split_groups(split)) for split in ("training", "development", "historical")]
    [32, 16, 149]
    >>> split_groups("preflight")[-1].family
    'list'
    """
    known: tuple[Split, ...] = (*SPLIT_SIZES, "unused", "historical")
    if split not in known:
        raise LarcError(f"there is no split {split!r}; give one of {', '.join(known)}.")
    return tuple(
        Group(family, pair)
        for family in FAMILIES
        for pair in active_pairs(family)
        if _splits(family)[pair] == split
    )


@cache
def _splits(family: Family) -> Mapping[Pair, Split]:
    order = shuffled(remaining_pairs(family), words(SPLITS, FAMILIES.index(family)))
    dealt: list[Split] = [split for split, size in SPLIT_SIZES.items() for _ in range(size)]
    dealt += ["unused"] * (len(order) - len(dealt))
    splits: dict[Pair, Split] = dict.fromkeys(historical_pairs(family), "historical")
    splits.update(zip(order, dealt, strict=True))
    return splits


def _suffix(pair: Pair) -> int:
    return integer(*ENTRY_RANGE, words(SUFFIXES, *pair))
