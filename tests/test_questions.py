import pytest

import larc
from larc.questions import Limits, ask


@pytest.mark.parametrize(
    ("prompt", "candidates", "message"),
    [
        ("q", [], "no candidates"),
        ("q", "ab", "one text, 'ab'"),
        ("q", ["a", ""], "candidate 1 is empty"),
        ("q", ["a", "b", "a"], "the same"),
        ("", ["a", "b"], "prompt is empty"),
        ("q" * 385, ["a", "b"], "385 tokens, over the limit of 384"),
        ("q", ["a", "b" * 32], "33 tokens with its end of sequence, over the limit of 32"),
        ("q", ["a", 3], "candidate 1 is no text"),
        (7, ["a", "b"], "the prompt is no text"),
    ],
)
def test_questions_that_cannot_be_scored_are_refused(tiny, prompt, candidates, message):
    with pytest.raises(larc.LarcError, match=message):
        ask(tiny, prompt, candidates)


def test_limits_can_be_raised_and_nothing_is_cut(tiny):
    question = ask(tiny, "q" * 385, ["a", "b" * 32], Limits(prompt=385, candidate=33))
    assert len(question.prompt) == 385
    assert len(question.candidates[1]) == 33
