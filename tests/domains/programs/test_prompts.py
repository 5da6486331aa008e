import pytest

from larc.domains.programs import (
    FAMILIES,
    Group,
    active_pairs,
    build_episodes,
    feedback_prompt,
    policy_prompt,
    split_groups,
)
from larc.errors import LarcError

EVERY_GROUP = [Group(family, pair) for family in FAMILIES for pair in active_pairs(family)]
LIST_GROUP = Group("list", (-6, 5))

LIST_PROMPT = """\
Family: list
Parameters: minimum -6, limit 5, suffix {suffix}
Programs:
min -6|take 5
take 5|min -6
min -6|sort|take 5|append {suffix}
append {suffix}|min -6|sort|take 5
Operations run left to right. Which program made the outputs?
Program:
"""


def test_the_policy_prompt_of_a_list_group_verbatim():
    assert policy_prompt(LIST_GROUP) == LIST_PROMPT.format(suffix=LIST_GROUP.suffix)


def test_the_feedback_prompt_differs_by_the_losses_and_their_heading_only():
    plain = policy_prompt(LIST_GROUP).splitlines()
    told = feedback_prompt(LIST_GROUP, [0.25, 0, 1, 2 / 3]).splitlines()
    assert told[:2] + told[7:] == plain[:2] + plain[7:]
    assert told[2] == "Programs, each with its fraction of wrong outputs:"
    assert [line.rsplit(": ")[1] for line in told[3:7]] == ["0.25", "0", "1", "0.667"]
    assert [line.rsplit(": ")[0] for line in told[3:7]] == plain[3:7]


def test_prompts_hold_every_candidate_in_order_and_end_where_one_continues():
    for group in EVERY_GROUP:
        for prompt in (policy_prompt(group), feedback_prompt(group, [1 / 3] * 4)):
            lines = [line.split(":")[0] for line in prompt.splitlines()]
            assert tuple(lines[3:7]) == group.candidates
            assert prompt.endswith("\nProgram:\n")


def test_prompts_fit_384_bytes():
    for group in EVERY_GROUP:
        assert len(feedback_prompt(group, [1 / 3] * 4).encode()) <= 384
        assert len(policy_prompt(group).encode()) <= 384


def test_the_policy_prompt_is_one_per_group_whatever_the_target():
    episodes = build_episodes(split_groups("development"))
    assert len({episode.prompt for episode in episodes}) == len(episodes) / 4


def test_a_wrong_number_of_losses_is_refused():
    with pytest.raises(LarcError, match="3 losses were given for 4 candidates"):
        feedback_prompt(LIST_GROUP, [0, 1, 1])
