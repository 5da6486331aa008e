import hashlib
from collections import Counter
from dataclasses import FrozenInstanceError

import pytest

from larc.domains.programs import (
    FAMILIES,
    SPLIT_SIZES,
    Group,
    active_pairs,
    historical_pairs,
    remaining_pairs,
    split_groups,
)
from larc.errors import LarcError

EVERY_GROUP = [Group(family, pair) for family in FAMILIES for pair in active_pairs(family)]


@pytest.mark.parametrize(
    ("family", "active", "historical", "remaining"),
    [("arithmetic", 350, 105, 245), ("list", 78, 44, 34)],
)
def test_the_counts_of_the_paper(family, active, historical, remaining):
    assert len(set(active_pairs(family))) == active
    assert len(set(historical_pairs(family))) == historical
    assert len(set(remaining_pairs(family))) == remaining
    assert {*historical_pairs(family), *remaining_pairs(family)} == {*active_pairs(family)}


def test_the_ranges_of_the_paper():
    scales, offsets = map(set, zip(*active_pairs("arithmetic"), strict=True))
    assert scales == {*range(-7, 8)} - {0}
    assert offsets == {*range(-12, 13)}
    minima, limits = map(set, zip(*active_pairs("list"), strict=True))
    assert minima == {*range(-6, 7)}
    assert limits == {*range(1, 7)}


def test_every_split_has_its_size_in_both_families():
    assert dict(SPLIT_SIZES) == {"training": 16, "development": 8, "reserved": 8, "preflight": 2}
    for split, size in SPLIT_SIZES.items():
        counts = Counter(group.family for group in split_groups(split))
        assert counts == {"arithmetic": size, "list": size}
    assert Counter(group.family for group in split_groups("unused")) == {"arithmetic": 211}


def test_splits_are_disjoint_and_together_everything():
    splits = [split_groups(split) for split in (*SPLIT_SIZES, "unused", "historical")]
    groups = [group for split in splits for group in split]
    assert len(groups) == len(set(groups)) == 350 + 78
    assert {group.name for group in groups} == {group.name for group in EVERY_GROUP}


def test_no_split_of_the_study_holds_a_historical_pair():
    for split in SPLIT_SIZES:
        for group in split_groups(split):
            assert group.pair not in historical_pairs(group.family)
    for group in split_groups("historical"):
        assert group.pair in historical_pairs(group.family)


def test_the_split_is_pinned():
    lines = [f"{group.name} {group.split} {group.suffix}" for group in EVERY_GROUP]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    assert digest == "ec5eea900d7e15757ff030af7a50f3dbf927fdebd8a52831c3bfdf573fb80014"


def test_a_group_agrees_with_the_split_that_lists_it():
    for split in (*SPLIT_SIZES, "unused", "historical"):
        assert {group.split for group in split_groups(split)} == {split}


def test_the_split_of_a_group_cannot_be_chosen():
    group = split_groups("reserved")[0]
    with pytest.raises(FrozenInstanceError):
        group.split = "training"
    with pytest.raises(TypeError):
        Group(group.family, group.pair, split="training")  # type: ignore[call-arg]


def test_candidates_are_distinct_and_fit_an_answer_of_31_bytes():
    for group in EVERY_GROUP:
        assert len(set(group.candidates)) == 4
        assert max(len(text.encode()) for text in group.candidates) <= 31


def test_candidates_start_and_end_without_white_space():
    assert all(text == text.strip() for group in EVERY_GROUP for text in group.candidates)


def test_list_groups_have_suffixes_in_the_range_of_entries_and_arithmetic_groups_none():
    suffixes = {group.suffix for group in EVERY_GROUP if group.family == "list"}
    assert suffixes <= {*range(-12, 13)}
    assert len(suffixes) > 12
    assert {group.suffix for group in EVERY_GROUP if group.family == "arithmetic"} == {None}


def test_names_are_unique_and_readable():
    assert len({group.name for group in EVERY_GROUP}) == len(EVERY_GROUP)
    assert Group("list", (-6, 5)).name == "list/-6,5"


@pytest.mark.parametrize(
    ("family", "pair"), [("arithmetic", (0, 3)), ("arithmetic", (2, 13)), ("list", (7, 1))]
)
def test_a_pair_outside_the_family_is_refused(family, pair):
    with pytest.raises(LarcError, match="no active pair"):
        Group(family, pair)


def test_an_unknown_family_or_split_is_refused():
    with pytest.raises(LarcError, match="give one of arithmetic, list"):
        Group("text", (1, 1))
    with pytest.raises(LarcError, match="give one of arithmetic, list"):
        historical_pairs("text")
    with pytest.raises(LarcError, match="give one of training"):
        split_groups("test")
