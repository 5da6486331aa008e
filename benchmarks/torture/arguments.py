"""Wrong arguments for every public function and command, made by hypothesis from their signatures.

Each call has good arguments, of which some are replaced. It may work, or refuse in one sentence;
anything else is a problem: another error, a hang, a state that a refusal has changed.
"""

from __future__ import annotations

import contextlib
import io
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from benchmarks.torture.callables import COMMANDS, World, commands
from larc.cli import main
from larc.errors import LarcError

#: Seconds after which a call counts as hanging.
PATIENCE = 120
TEXTS = ("", "\ud800", "x" * 5000, "<eos>", "nan", "-1", "\0", "é\u2028", "/dev/null", "a/b")
TEXT = st.one_of(st.sampled_from(TEXTS), st.text(max_size=6))
#: Options that say where to write: what is put there is below a device, where nothing can be.
WRITTEN = ("--out", "--data", "--token-file")
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 3),
    st.just(10**400),
    st.floats(),
    st.complex_numbers(),
    st.sampled_from(TEXTS),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.builds(object),
    st.sampled_from([print, torch.zeros(0), torch.ones(2, 2), Path("/nowhere")]),
)
VALUES = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=3),
    st.tuples(SCALARS, SCALARS),
    st.dictionaries(st.text(max_size=3), SCALARS, max_size=2),
)


@dataclass
class Called:
    """What came of it."""

    tried: int = 0
    refused: int = 0
    problems: list[str] = field(default_factory=list)


def call_all(
    directory: Path, count: int, number: int, outcome: Called, say: Callable[[str], None]
) -> None:
    """Make so many calls: nine of ten of functions, the others of commands."""
    directory.mkdir(parents=True, exist_ok=True)
    world = World(directory)
    calls = world.calls()
    options, of_commands = commands(), count // 10

    @seed(number)
    @settings(
        max_examples=count - of_commands,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def functions(data: st.DataObject) -> None:
        call = data.draw(st.sampled_from(calls))
        names = [*call.good, *call.others]
        changed = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
        wrong = {name: data.draw(VALUES) for name in changed}
        _try(world, call.name, wrong, outcome, lambda: call.function(**{**call.good, **wrong}))

    @seed(number)
    @settings(
        max_examples=max(1, of_commands),
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def lines(data: st.DataObject) -> None:
        line = list(data.draw(st.sampled_from(COMMANDS)))
        place = data.draw(st.integers(1, len(line) - 1))
        words = max(words for words in options if tuple(line[: len(words)]) == words)
        text = data.draw(TEXT)
        line[place] = f"/dev/null/{text}" if line[place].startswith("/") else text
        if data.draw(st.booleans()):  # and an option that the command has
            option, value = data.draw(st.sampled_from(options[words])), data.draw(TEXT)
            line += [option, f"/dev/null/{value}" if option in WRITTEN else value]
        _try(world, "larc", {"line": line}, outcome, lambda: _command(line))

    here = directory / "here"  # a wrong path may be a good one, and be written to
    here.mkdir(exist_ok=True)
    with contextlib.chdir(here):
        functions()
    say(f"functions: {outcome.tried} calls, {outcome.refused} refused")
    before = outcome.tried
    with contextlib.chdir(here):
        lines()
    say(f"commands: {outcome.tried - before} lines")


def _command(line: list[str]) -> None:
    told = io.StringIO()
    nothing = mock.patch.object(sys, "stdin", io.StringIO())
    with nothing, contextlib.redirect_stderr(told), contextlib.redirect_stdout(io.StringIO()):
        code = main(line)
    if code not in (0, 1, 2):
        raise AssertionError(f"the exit code is {code}")
    if code == 1:
        raise LarcError(told.getvalue())


def _try(
    world: World, name: str, wrong: Mapping[str, Any], outcome: Called, do: Callable[[], Any]
) -> None:
    before = world.state()
    outcome.tried += 1
    try:
        with _patience():
            do()
    except LarcError:
        outcome.refused += 1
        # A search is saved before its judge is asked: what that answers can only be refused later.
        if world.state() != before and not ("judge" in wrong and "checkpoint" in wrong):
            outcome.problems.append(f"{name} refused {_shown(wrong)} and changed something")
    except BaseException:  # whatever it is, it is no refusal
        last = traceback.format_exc().strip().splitlines()
        outcome.problems.append(f"{name} with {_shown(wrong)}: {last[-1]} ({last[-3].strip()})")


@contextlib.contextmanager
def _patience() -> Iterator[None]:
    def late(*_: Any) -> None:
        raise TimeoutError(f"it took more than {PATIENCE} seconds")

    outer = signal.signal(signal.SIGALRM, late)
    left = signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(left)
        signal.signal(signal.SIGALRM, outer)


def _shown(wrong: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r:.60}" for name, value in wrong.items())
