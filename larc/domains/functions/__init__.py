"""Small Python functions with one expression left out, and the unit tests it has to pass.

The expressions come from a grammar, so that there is little to fear from them; they are run all the
same in a process of their own with limits.

Examples
--------
>>> problem = function_problems()[0]
>>> print(problem.prompt + problem.answer)
# Return the area of a rectangle.
# area(2, 3) == 6
# area(5, 1) == 5
def area(a, b):
    return a * b
"""

from larc.domains.functions.problems import (
    FunctionProblem,
    Test,
    function_problems,
)

__all__ = ["FunctionProblem", "Test", "function_problems"]
