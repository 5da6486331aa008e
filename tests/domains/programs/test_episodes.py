import hashlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from larc.domains.programs import (
    Group,
    ProgramEpisode,
    build_episode,
    build_episodes,
    feedback_prompt,
    policy_prompt,
    split_groups,
    to_task,
)
from larc.errors import LarcError

OPEN_SPLITS = ("training", "development", "preflight", "historical")
open_groups = st.sampled_from([group for split in OPEN_SPLITS for group in split_groups(split)])
targets = st.integers(0, 3)
ARITHMETIC = Group("arithmetic", (2, 3))


def test_four_episodes_a_group_one_per_target():
    groups = split_groups("development")
    episodes = build_episodes(groups)
    assert len(build_episodes(split_groups("training"))) == 128
    assert [(episode.group, episode.target) for episode in episodes] == [
        (group, target) for group in groups for target in range(4)
    ]
    assert len({episode.name for episode in episodes}) == 64


@given(open_groups, targets)
def test_inputs_are_in_range_without_duplicates_and_disjoint(group, target):
    episode = build_episode(group, target)
    inputs = episode.support_inputs + episode.query_inputs
    assert (len(episode.support_inputs), len(episode.query_inputs)) == (4, 20)
    assert len(set(inputs)) == 24
    if group.family == "arithmetic":
        assert all(type(value) is int and -48 <= value <= 48 for value in inputs)
    else:
        assert {len(value) for value in inputs} == {6}
        assert all(-12 <= entry <= 12 for value in inputs for entry in value)


def test_the_episodes_of_a_group_have_streams_of_their_own():
    inputs = {episode.support_inputs for episode in build_episodes(split_groups("training"))}
    assert len(inputs) == 128


def test_training_and_development_episodes_are_pinned():
    rows = [
        [
            episode.name,
            episode.candidates,
            episode.support_inputs,
            episode.query_inputs,
            episode.support_losses,
            episode.query_losses,
        ]
        for split in ("training", "development")
        for episode in build_episodes(split_groups(split))
    ]
    digest = hashlib.sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest()
    assert digest == "b057deefc77fa32b6cce967a1a9f8a7ce130245286368db93ddb68fecc343a1f"


@settings(max_examples=50)
@given(open_groups, targets, st.integers(1, 30))
def test_settings_of_support_are_paired(group, target, support):
    usual, other = build_episode(group, target), build_episode(group, target, support=support)
    shared = min(support, 4)
    assert len(other.support_inputs) == support
    assert other.support_inputs[:shared] == usual.support_inputs[:shared]
    assert other.query_inputs == usual.query_inputs
    assert len({*other.support_inputs, *other.query_inputs}) == support + 20


def test_all_numbers_can_be_used_and_no_more():
    episode = build_episode(ARITHMETIC, 0, support=77)
    assert sorted(episode.support_inputs + episode.query_inputs) == list(range(-48, 49))
    for support in (0, -1, 78):
        with pytest.raises(LarcError, match="give at least 1, and at most 77"):
            build_episode(ARITHMETIC, 0, support=support)


def test_lists_have_no_such_limit():
    assert len(build_episode(Group("list", (0, 2)), 0, support=100).support_inputs) == 100


@given(open_groups, targets)
def test_the_target_has_no_loss(group, target):
    episode = build_episode(group, target)
    assert episode.support_losses[target] == episode.query_losses[target] == 0


def test_a_target_that_is_no_candidate_is_refused():
    with pytest.raises(LarcError, match="give an index from 0 to 3"):
        build_episode(ARITHMETIC, 4)


def test_reserved_episodes_are_not_built_by_accident():
    reserved = split_groups("reserved")
    for group in reserved:
        with pytest.raises(LarcError, match="reserved for the final evaluation"):
            build_episode(group, 0)
    with pytest.raises(LarcError, match="reserved for the final evaluation"):
        build_episodes([*split_groups("training"), reserved[0]])


def test_the_final_evaluation_opens_the_reserved_split(monkeypatch):
    # A historical group stands in for a reserved one: not even a test opens those.
    expected = build_episodes([ARITHMETIC])
    monkeypatch.setattr(Group, "split", "reserved")
    with pytest.raises(LarcError, match="reserved"):
        build_episodes([ARITHMETIC])
    assert build_episodes([ARITHMETIC], final_evaluation=True) == expected


def test_a_task_carries_the_episode():
    episode = build_episode(Group("list", (0, 2)), 3)
    task = to_task(episode, with_query=True)
    assert task.prompt == episode.prompt == policy_prompt(episode.group)
    assert task.candidates == episode.candidates == episode.group.candidates
    assert task.support == episode.support_losses
    assert task.query == episode.query_losses
    assert (task.group, task.family) == ("list/0,2", "list")


def test_a_closed_task_never_computes_its_query(monkeypatch):
    def opened(episode):
        raise AssertionError("the query was opened")

    monkeypatch.setattr(ProgramEpisode, "query_losses", property(opened))
    assert to_task(build_episode(ARITHMETIC, 0), with_query=False).query is None


def test_the_text_baseline_reads_the_support_losses():
    episode = build_episode(ARITHMETIC, 1)
    assert episode.feedback_prompt == feedback_prompt(ARITHMETIC, episode.support_losses)
