"""Wrong arguments for every public function and command, made by hypothesis from their signatures.

Each call has good arguments, of which some are replaced. It may work, or refuse in one sentence;
anything else is a problem: another error, a hang, a state that a refusal has changed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import io
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

import larc
from larc.cli import main
from larc.errors import LarcError
from larc.training.labels import LabelTrainer

#: Seconds after which a call counts as hanging.
PATIENCE = 120
TEXTS = ("", "\ud800", "x" * 5000, "<eos>", "nan", "-1", "\0", "é\u2028", "/dev/null", "a/b")
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
    st.sampled_from([int, print, torch.zeros(0), torch.ones(2, 2), Path("/nowhere")]),
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


@dataclass(frozen=True)
class Call:
    """A function, and arguments that it takes."""

    name: str
    function: Callable[..., Any]
    good: Mapping[str, Any]


class World:
    """What calls are made on, and whether it is as it was."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.substrate = larc.load_substrate("tiny")
        self.slow = larc.SlowState.initial(self.substrate, seed=1)
        self.learner = larc.Learner(self.substrate, self.slow)
        self.episode = self.learner.begin()
        self.task = larc.Task("Even? ", ["3", "4"], [1, 0], [1, 0], group="g")
        self.predictions = larc.predict(self.substrate, self.slow, [self.task], seed=1)
        self._file = directory / "episode"
        self.episode.save(self._file)

    def state(self) -> tuple[Any, ...]:
        """Return everything that a refused call must leave alone."""
        factors = self.episode.factors
        random = torch.get_rng_state().numpy().tobytes()
        files = sorted(str(path) for path in self.directory.rglob("*"))
        numbers = (factors.A.numpy().tobytes(), factors.B.numpy().tobytes())
        return (*numbers, self.episode.step, self.slow.digest, random, files)

    def calls(self) -> list[Call]:
        """Return the public functions with arguments that they take."""
        task, slow, on = self.task, self.slow, self.substrate
        question = {"prompt": "Even? ", "candidates": ["3", "4"]}
        learner, episode = self.learner, self.episode
        quick = {"seed": 1, "inner_steps": 1, "rule": larc.SGD(0.1), "limits": larc.Limits()}
        listed: list[tuple[Callable[..., Any], dict[str, Any]]] = [
            (larc.SGD, {"step_size": 0.1}),
            (larc.Descent, {"length": 1.0, "steps": 1, "shrink": 0.5, "tries": 2, "radius": 1.0}),
            (larc.AdamW, {"learning_rate": 1e-3, "beta1": 0.9, "epsilon": 1e-8, "clip": 1.0}),
            (larc.Limits, {"prompt": 8, "candidate": 8}),
            (larc.Task, {f.name: getattr(task, f.name) for f in dataclasses.fields(task)}),
            (larc.Label, {**question, "index": 0, "offsets": [0.0, 1.0]}),
            (larc.CandidateLosses, {**question, "losses": [0, 1]}),
            (larc.Factors, {"A": slow.factors.A, "B": slow.factors.B}),
            (larc.TrainingSettings, {"objective": "adapted", "batch": 1, "rule": larc.SGD()}),
            (larc.SlowState.initial, {"substrate": on, "rank": 2, "seed": 1, "boundary": 0}),
            (larc.Learner, {"substrate": on, "slow": slow, "rule": larc.SGD(), "limits": None}),
            (larc.load_substrate, {"source": "tiny", "chunk_positions": 64, "texts": "plain"}),
            (larc.train, {"substrate": on, "tasks": [task], "updates": 1, "seed": 1, "batch": 1}),
            (larc.train, {"substrate": on, "tasks": [task], "updates": 1, "seed": 1, "rank": 2}),
            (larc.predict, {"substrate": on, "slow": slow, "tasks": [task], **quick}),
            (larc.evaluate, {"substrate": on, "slow": slow, "tasks": [task], **quick}),
            (larc.judge, {"predictions": self.predictions, "tasks": [task], "seed": 1}),
            (
                larc.export_state,
                {"substrate": on, "state": "/nowhere", "out": "/dev/null/x", "to": "peft"},
            ),
            (larc.SlowState.from_pretrained, {"source": "/nowhere/x/y", "seed": 1}),
            (learner.begin, {"seed": 1}),
            (learner.resume, {"path": self._file}),
            (learner.read_many, {"requests": [(episode, "q", ["a", "b"])]}),
            (learner.generate, {"requests": [(episode, "q")], "max_new_tokens": 1}),
            (partial(_entered, learner), {"episode": episode}),
            (episode.read, question),
            (partial(_updated, learner), {"feedback": larc.Label("q", ["a", "b"], 0)}),
            (partial(_labels, self), {"labels": [larc.Label("q", ["a"], 0)], "weights": [1.0]}),
        ]
        return [Call(_name(function), function, good) for function, good in listed]


def _name(function: Callable[..., Any]) -> str:
    inner = function.func if isinstance(function, partial) else function
    return inner.__qualname__


def _entered(learner: larc.Learner, episode: Any) -> None:
    with learner.active(episode):
        pass


def _updated(learner: larc.Learner, feedback: Any) -> None:
    learner.begin().update(feedback)


def _labels(world: World, labels: Any, weights: Any) -> None:
    LabelTrainer(world.substrate, world.slow, labels, weights)


#: Commands that end in a refusal whatever is put into them: what they name is nowhere.
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("study", "tasks", "--preset", "smoke", "--tasks", "/nowhere.jsonl", "--out", "/nowhere/x"),
    ("study", "programs", "--preset", "smoke", "--out", "/dev/null", "--rank", "2"),
    ("study", "programs", "--preset", "smoke", "--out", "/dev/null", "--rule", "sgd:1"),
    ("study", "ci", "--preset", "smoke", "--jobs", "/nowhere", "--out", "/dev/null"),
    ("study", "stream", "--preset", "smoke", "--events", "/nowhere", "--out", "/dev/null"),
    ("study", "controller", "--run", "/nowhere", "--out", "/dev/null"),
    ("study", "final", "/nowhere"),
    ("report", "/nowhere", "--out", "/dev/null"),
    ("verify", "/nowhere"),
    ("pack", "/nowhere", "--out", "/dev/null"),
    ("unpack", "/nowhere", "--out", "/dev/null"),
    ("package", "/nowhere", "--out", "/dev/null", "--objective", "adapted"),
    ("export", "/nowhere", "--to", "peft", "--out", "/dev/null", "--substrate", "tiny"),
    ("ci", "baseline", "/nowhere", "--renamed", "a=b"),
    ("adapter", "--substrate", "nowhere", "--out", "/dev/null", "--updates", "1"),
    ("completion", "bash"),
)


def call_all(
    directory: Path, count: int, number: int, outcome: Called, say: Callable[[str], None]
) -> None:
    """Make so many calls: nine of ten of functions, the others of commands."""
    directory.mkdir(parents=True, exist_ok=True)
    world = World(directory)
    calls = world.calls()
    commands = count // 10

    @seed(number)
    @settings(
        max_examples=count - commands,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def functions(data: st.DataObject) -> None:
        call = data.draw(st.sampled_from(calls))
        names = [*call.good, *_others(call)]
        changed = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
        wrong = {name: data.draw(VALUES) for name in changed}
        _try(world, call.name, wrong, outcome, lambda: call.function(**{**call.good, **wrong}))

    @seed(number)
    @settings(
        max_examples=max(1, commands),
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def lines(data: st.DataObject) -> None:
        line = list(data.draw(st.sampled_from(COMMANDS)))
        place = data.draw(st.integers(1, len(line) - 1))
        text = data.draw(st.one_of(st.sampled_from(TEXTS), st.text(max_size=6)))
        line[place] = f"/nowhere/{text}" if line[place].startswith("/") else text
        _try(world, "larc", {"line": line}, outcome, lambda: _command(line))

    functions()
    say(f"functions: {outcome.tried} calls, {outcome.refused} refused")
    before = outcome.tried
    lines()
    say(f"commands: {outcome.tried - before} lines")


def _others(call: Call) -> list[str]:
    """Return the parameters of a function that its good arguments leave out."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(call.function).parameters.values()
    return [p.name for p in parameters if p.kind in kinds and p.name not in call.good]


def _command(line: list[str]) -> None:
    told = io.StringIO()
    with contextlib.redirect_stderr(told), contextlib.redirect_stdout(io.StringIO()):
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
        if world.state() != before:
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
