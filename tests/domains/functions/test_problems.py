"""The functions: every right answer is an expression of its grammar and passes all tests."""

import sys

import pytest

import larc
from larc.domains.functions import function_problems

PROBLEMS = function_problems()


def named(problem):
    return problem.name


def test_names_are_different_and_tests_are_kept_back():
    assert len({problem.name for problem in PROBLEMS}) == len(PROBLEMS) == 36
    for problem in PROBLEMS:
        assert len(problem.support_tests) >= 3
        assert len(problem.query_tests) >= 3


@pytest.mark.parametrize("problem", PROBLEMS, ids=named)
def test_an_answer_is_one_of_the_grammar_and_right(problem):
    assert larc.Grammar(problem.rules).accepts(problem.answer)
    assert problem.judge()([problem.answer]) == [0.0]
    assert problem.solved_by(problem.answer)


def test_another_expression_is_not_right():
    wrong = {problem.name: "0" for problem in PROBLEMS if problem.family != "text"}
    for problem in PROBLEMS:
        text = wrong.get(problem.name, "'x'")
        assert larc.Grammar(problem.rules).accepts(text)
    assert not PROBLEMS[0].solved_by("a + b")
    assert PROBLEMS[0].judge()(["a +", "a // 0"]) == [1.0, 1.0]  # no Python, and an error


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
def test_what_is_not_of_the_grammar_is_held_by_the_limits(tmp_path):
    problem = PROBLEMS[0]
    file = tmp_path / "written"
    too_long = f"open({str(file)!r}, 'w').write('x' * 10**6)"
    endless = "[0 for _ in iter(int, 1)]"
    assert problem.judge(seconds=1.0)([too_long, endless]) == [1.0, 1.0]
    assert not file.exists() or file.stat().st_size <= 2**16
