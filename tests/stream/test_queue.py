import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from larc.errors import LarcError
from larc.stream import Arrive, Ask, order_events, split_streams

times = st.integers(0, 12)
streams = st.lists(st.tuples(times, times | st.none()), max_size=25).map(
    lambda pairs: [
        (number, ask, None if delay is None else ask + delay)
        for number, (ask, delay) in enumerate(pairs)
    ]
)


def events_of(items):
    return list(
        order_events(
            items,
            asked=lambda item: item[1],
            arrives=lambda item: item[2],
            identifier=lambda item: item[0],
        )
    )


@given(streams, st.randoms(use_true_random=False))
def test_the_order_is_causal_complete_and_stable(items, randomness):
    events = events_of(items)
    shuffled = list(items)
    randomness.shuffle(shuffled)
    assert events_of(shuffled) == events

    # At one time there is at most one Ask and one Arrive, in this order.
    places = [(event.time, isinstance(event, Arrive)) for event in events]
    assert places == sorted(set(places))
    asked = [item for event in events if isinstance(event, Ask) for item in event.items]
    arrived = [item for event in events if isinstance(event, Arrive) for item in event.items]
    assert sorted(asked) == sorted(items)
    assert sorted(item[0] for item in arrived) == [item[0] for item in items if item[2] is not None]
    for event in events:
        assert list(event.items) == sorted(event.items)
        for item in event.items:
            assert event.time == (item[1] if isinstance(event, Ask) else item[2])


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([(1, 0, 1), (1, 0, 1)], "own identifier"),
        ([(1, 5, 4)], "before it is asked"),
        ([(1, math.nan, 4)], "not finite"),
        ([(1, 0, math.inf)], "not finite"),
    ],
)
def test_an_impossible_stream_is_refused_before_its_first_event(items, message):
    with pytest.raises(LarcError, match=message):
        order_events(
            items,
            asked=lambda item: item[1],
            arrives=lambda item: item[2],
            identifier=lambda item: item[0],
        )


def test_streams_are_kept_apart_and_sorted():
    items = [(name, number) for number in range(3) for name in "cab"]
    random.Random(1).shuffle(items)
    split = split_streams(items, stream=lambda item: item[0])
    assert list(split) == ["a", "b", "c"]
    assert all({item[0] for item in members} == {name} for name, members in split.items())
