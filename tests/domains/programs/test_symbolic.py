from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from larc.domains.programs import FAMILIES, build_episodes, split_groups, symbolic_choice
from larc.errors import LarcError


@given(st.lists(st.floats(0, 1), min_size=1))
def test_the_choice_is_the_first_of_the_lowest(losses):
    choice = symbolic_choice(losses)
    assert losses[choice] == min(losses)
    assert all(loss > losses[choice] for loss in losses[:choice])


def test_nothing_to_choose_from_is_refused():
    with pytest.raises(LarcError, match="nothing to choose from"):
        symbolic_choice([])


def symbolic_error(split, support):
    """Recipes are averaged in groups, groups in families, and families weigh the same."""
    errors = {family: [] for family in FAMILIES}
    for group in split_groups(split):
        queries = [
            episode.query_losses[symbolic_choice(episode.support_losses)]
            for episode in build_episodes([group], support=support)
        ]
        errors[group.family].append(mean(queries))
    return mean(mean(of_family) for of_family in errors.values())


# Four inputs leave few ties: the paper's rule errs on 0.78125 % of its own development inputs.
# With the inputs drawn here it errs on none of development and on 0.82 % of training.
@pytest.mark.parametrize(
    ("split", "support", "percent"),
    [
        ("development", 1, 10.0),
        ("development", 2, 5.0),
        ("development", 4, 0.0),
        ("training", 4, 0.8203125),
    ],
)
def test_the_error_of_the_rule_is_pinned(split, support, percent):
    assert 100 * symbolic_error(split, support) == pytest.approx(percent)
