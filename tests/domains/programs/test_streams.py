from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from larc.domains.programs.streams import integer, shuffled, words

keys = st.lists(st.integers(-100, 100), min_size=1, max_size=6)


def test_the_words_of_a_stream_are_pinned():
    assert list(islice(words(1, -2, 3), 2)) == [801121924552189375, 18256332523849749926]


@given(keys)
def test_equal_keys_give_equal_streams_and_no_shared_position(key):
    one, other = words(*key), words(*key)
    assert list(islice(one, 5)) == list(islice(other, 5))
    next(one)
    assert list(islice(other, 2))[1] == next(one)


@given(st.tuples(*[st.integers(-100, 100)] * 4), st.tuples(*[st.integers(-100, 100)] * 4))
def test_different_keys_of_one_length_give_different_streams(one, other):
    same = list(islice(words(*one), 2)) == list(islice(words(*other), 2))
    assert same == (one == other)


@given(st.lists(st.integers()), keys)
def test_shuffling_keeps_every_item(items, key):
    assert sorted(shuffled(items, words(*key))) == sorted(items)


@given(st.integers(-50, 50), st.integers(0, 50), keys)
def test_an_integer_is_within_its_bounds(lower, span, key):
    assert lower <= integer(lower, lower + span, words(*key)) <= lower + span


def test_every_value_of_a_range_is_drawn_about_equally_often():
    stream = words(0)
    drawn = [integer(-12, 12, stream) for _ in range(5000)]
    counts = [drawn.count(value) for value in range(-12, 13)]
    assert sum(counts) == 5000
    assert min(counts) > 140
    assert max(counts) < 260
