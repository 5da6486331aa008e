"""Tasks of one prompt and tasks of many questions: how they are checked, opened and closed."""

import pytest

import larc
from larc.feedback import Unlabelled

KINDS = ("billing", "fault", "praise")


def many(**changes):
    given = {
        "support": [[larc.Label("a: ", KINDS, 0)], [larc.Label("b: ", KINDS, 1)]],
        "query": [larc.Label("c: ", KINDS, 2), larc.CandidateLosses("d: ", KINDS, [0, 0.5, 1])],
        "group": "customer",
    }
    return larc.Task(**{**given, **changes})


def test_one_prompt_is_one_batch_and_one_question():
    task = larc.Task("Even? ", ["3", "4"], [1, 0], [0.5, 0])
    ((piece,),) = task.batches
    assert (piece.prompt, piece.losses) == ("Even? ", (1.0, 0.0))
    assert [one.losses for one in task.queries] == [(0.5, 0.0)]
    assert not task.many
    assert task.closed() == larc.Task("Even? ", ["3", "4"], [1, 0])
    assert not task.closed().opened


def test_many_questions_keep_their_batches_and_close_their_labels():
    task = many(support=[larc.Label("a: ", KINDS, 0), [larc.Label("b: ", KINDS, 1)] * 2])
    assert task.many
    assert [len(batch) for batch in task.batches] == [1, 2]
    assert [one.losses for one in task.queries] == [(1.0, 1.0, 0.0), (0.0, 0.5, 1.0)]
    closed = task.closed()
    assert all(isinstance(one, Unlabelled) for one in closed.asked)
    assert [one.prompt for one in closed.asked] == ["c: ", "d: "]
    with pytest.raises(larc.LarcError, match="query is closed"):
        _ = closed.queries


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"support": []}, "no support"),
        ({"support": [[]]}, "batch 0"),
        ({"support": [[larc.Label("a: ", KINDS, 0)], ["text"]]}, "batch 1"),
        ({"support": [0.0, 1.0]}, "batch 0"),
        ({"query": []}, "query is empty"),
        ({"query": [0.0]}, "question 0"),
        ({"prompt": "x", "candidates": ["a", "b"]}, "a prompt of its own"),
        ({"prompt": "x"}, "no candidates"),
    ],
)
def test_what_is_no_task_is_refused(changes, reason):
    with pytest.raises(larc.LarcError, match=reason):
        many(**changes)
