"""The functions, what is known of them, and how an expression is judged."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from larc.domains.functions.table import RULES, TABLE
from larc.proposals.judges import SubprocessJudge

_SHOWN = 2
# Runs in a process of its own, with limits: the function of a text, and the tests it fails.
_RUNNER = """
import json, sys
function, tests, expression = sys.argv[1], json.loads(sys.argv[2]), sys.stdin.read()
scope = {}
exec(function + expression + "\\n", scope)
wrong = 0
for arguments, expected in tests:
    try:
        wrong += json.loads(json.dumps(scope["_"](*arguments))) != expected
    except Exception:
        wrong += 1
print(wrong / len(tests))
"""


@dataclass(frozen=True)
class Test:
    """The arguments of a call and what it returns, as JSON values."""

    __test__ = False  # nothing for pytest to collect

    arguments: tuple[Any, ...]
    expected: Any


@dataclass(frozen=True)
class FunctionProblem:
    """A function whose expression is to be written.

    Attributes
    ----------
    name, family
        The function's, and what kind of values it is about: numbers, lists or text.
    parameters, sentence
        Its parameters, and what it returns.
    answer
        An expression that is right.
    support_tests, query_tests
        Tests that a search may run, and those that the answer is judged on.
    """

    name: str
    family: str
    parameters: tuple[str, ...]
    sentence: str
    answer: str
    support_tests: tuple[Test, ...]
    query_tests: tuple[Test, ...]

    @property
    def prompt(self) -> str:
        """The function up to its expression, with a sentence and a few tests before it."""
        return self.prompt_with(())

    def prompt_with(self, tried: Sequence[tuple[str, float]]) -> str:
        """Return the prompt with expressions that were tried and the part of tests they failed."""
        shown = [
            f"# {self.name}({', '.join(map(repr, test.arguments))}) == {test.expected!r}"
            for test in self.support_tests[:_SHOWN]
        ]
        wrong = [f"# wrong, {100 * loss:.0f}% of tests fail: {text}" for text, loss in tried]
        head = f"def {self.name}({', '.join(self.parameters)}):"
        return "\n".join([f"# {self.sentence}", *shown, *wrong, head, "    return "])

    @property
    def rules(self) -> str:
        """The rules of the grammar of its expressions, for `larc.Grammar`."""
        names = " | ".join(f'"{name}"' for name in self.parameters)
        return f"{RULES[self.family]}\nname ::= {names}"

    def judge(self, seconds: float = 5.0) -> SubprocessJudge:
        """Return what gives every expression the part of the tests that it fails."""
        return self._judge(self.support_tests, seconds)

    def solved_by(self, text: str) -> bool:
        """Whether an expression passes every test that was kept back."""
        return self._judge(self.query_tests, 5.0)([text])[0] == 0

    def _judge(self, tests: Sequence[Test], seconds: float) -> SubprocessJudge:
        head = f"def _({', '.join(self.parameters)}):\n    return "
        cases = json.dumps([[list(test.arguments), test.expected] for test in tests])
        command = [sys.executable, "-I", "-S", "-c", _RUNNER, head, cases]
        return SubprocessJudge(command, seconds, patience=6.0, memory=2**29, file=2**16)


def function_problems() -> tuple[FunctionProblem, ...]:
    """Return every function, in a fixed order.

    Examples
    --------
    >>> problems = function_problems()
    >>> len(problems), sorted({problem.family for problem in problems})
    (36, ['lists', 'numbers', 'text'])
    >>> problems[0].judge()(["a * b", "a + b"])
    [0.0, 1.0]
    """
    problems = []
    for family, rows in TABLE.items():
        for name, parameters, sentence, answer, cases in rows:
            tests = tuple(Test(tuple(arguments), expected) for *arguments, expected in cases)
            half = len(tests) // 2
            problems.append(
                FunctionProblem(
                    name,
                    family,
                    tuple(parameters.split()),
                    sentence,
                    answer,
                    tests[:half],
                    tests[half:],
                )
            )
    return tuple(problems)
