"""Private random streams: each is a function of integers alone, the same in every NumPy release."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")

# The one seed of the task: splits, suffixes and inputs all follow from it.
SEED = 20260928

# What a stream is for. Two streams of different purpose share no draws.
SPLITS, SUFFIXES, INPUTS, SYNTHESIS, EVOLUTION = 1, 2, 3, 4, 5
SEQUENCES, TARGETS, PROBES = 6, 7, 8


def words(*key: int) -> Iterator[int]:
    """Yield the 64-bit words of the stream named by a key of integers, without end.

    NumPy may change what a ``Generator`` draws from one release to the next, and with it which
    groups are reserved; it promises that the words of a seeded PCG64 stay. So only words are used.

    Examples
    --------
    >>> from itertools import islice
    >>> first, again, other = (list(islice(words(*key), 3)) for key in ((1, -2), (1, -2), (1, 2)))
    >>> first == again, first == other
    (True, False)
    """
    # A seed sequence takes no negative integers: each is read as its 32-bit two's complement.
    bits = np.random.PCG64(np.random.SeedSequence([SEED, *(part % 2**32 for part in key)]))
    while True:
        yield int(bits.random_raw())


def shuffled(items: Sequence[Item], stream: Iterator[int]) -> list[Item]:
    """Return the items in an order drawn from a stream, one word an item.

    Examples
    --------
    >>> shuffled("abcd", iter([30, 10, 40, 20]))
    ['b', 'd', 'a', 'c']
    """
    keys = [next(stream) for _ in items]
    return [items[index] for index in sorted(range(len(items)), key=keys.__getitem__)]


def integer(lower: int, upper: int, stream: Iterator[int]) -> int:
    """Return an integer drawn from ``lower`` to ``upper``, both included.

    Examples
    --------
    >>> integer(-12, 12, iter([26]))
    -11
    """
    # The remainder of a 64-bit word favours no value by more than one part in 2**58 here.
    return lower + next(stream) % (upper - lower + 1)
