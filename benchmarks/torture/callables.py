"""Everything public, with arguments that it takes: what wrong arguments are put into."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

import larc
from larc.cli.command_line import _parser
from larc.errors import LarcError
from larc.stream.experts import LabelFrequency
from larc.training.labels import LabelTrainer
from larc.training.streams import StreamSettings

#: Public names that nobody calls: what is given back, what one writes oneself, and errors.
NOT_CALLED = {
    *("Evaluation", "Identity", "Improvement", "Predictions", "Proposal", "Update"),
    *("Prompter", "UpdateRule"),
    *("ConflictingLabel", "DuplicateLabel", "LabelRefused", "LarcError", "NeverAsked"),
    *("NotACandidate", "SessionFull", "StalePlan"),
}


@dataclass(frozen=True)
class Call:
    """A function, and arguments that it takes."""

    name: str
    function: Callable[..., Any]
    good: Mapping[str, Any]

    @property
    def others(self) -> list[str]:
        """The parameters that the good arguments leave out."""
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        parameters = inspect.signature(self.function).parameters.values()
        return [p.name for p in parameters if p.kind in kinds and p.name not in self.good]


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
        self.asked = larc.Question("a", ("3", "4"), prompt="Even? ")
        self._files = {name: directory / name for name in ("episode", "session", "controller")}
        self.episode.save(self._files["episode"])
        self.controller().session.save(self._files["session"])
        self.controller().save(self._files["controller"])

    def state(self) -> tuple[Any, ...]:
        """Return everything that a refused call must leave alone."""
        factors = self.episode.factors
        random = torch.get_rng_state().numpy().tobytes()
        files = sorted(str(path) for path in self.directory.rglob("*"))
        numbers = (factors.A.numpy().tobytes(), factors.B.numpy().tobytes())
        return (*numbers, self.episode.step, self.slow.digest, random, files)

    def controller(self) -> larc.Controller:
        """Return a controller that awaits one label and has learned another."""
        strategies = [larc.Strategy("keep"), larc.Strategy("reset", retention="reset")]
        limits = larc.SessionLimits(log=1 << 16)
        session = larc.Session(self.learner, strategies, seed=1, limits=limits)
        controller = larc.Controller(session, [LabelFrequency()])
        controller.ask([self.asked, larc.Question("z", ("3", "4"), prompt="Odd? ")])
        controller.learn({"z": 0})
        return controller

    def calls(self) -> list[Call]:
        """Return everything public with arguments that it takes."""
        calls = [*self._values(), *self._functions(), *self._methods(), *self._live()]
        return [Call(_name(function), function, good) for function, good in calls]

    def _values(self) -> list[tuple[Callable[..., Any], dict[str, Any]]]:
        """Return classes of plain values."""
        task, slow = self.task, self.slow
        question = {"prompt": "Even? ", "candidates": ["3", "4"]}
        recorded = larc.Recorded(self.asked, asked=0, arrives=1, label=0)
        whole = (task, slow, recorded, larc.ImproveSettings(rounds=1))
        listed: list[tuple[Callable[..., Any], dict[str, Any]]] = [
            (larc.SGD, {"step_size": 0.1}),
            (larc.RMSprop, {"step_size": 0.1, "beta": 0.9, "epsilon": 1e-4}),
            (larc.Descent, {"length": 1.0, "steps": 1, "shrink": 0.5, "tries": 2, "radius": 1.0}),
            (larc.AdamW, {"learning_rate": 1e-3, "beta1": 0.9, "epsilon": 1e-8, "clip": 1.0}),
            (larc.Limits, {"prompt": 8, "candidate": 8}),
            (larc.SessionLimits, {"pending": 1, "total": 2, "labelled": 1, "log": 1}),
            (larc.Label, {**question, "index": 0, "offsets": [0.0, 1.0]}),
            (larc.CandidateLosses, {**question, "losses": [0, 1]}),
            (larc.Factors, {"A": slow.factors.A, "B": slow.factors.B}),
            (larc.TrainingSettings, {"objective": "adapted", "batch": 1, "rule": larc.SGD()}),
            (StreamSettings, {"window": 2, "batch": 1, "rule": larc.SGD()}),
            (larc.Question, {"name": "a", **question, "source": None}),
            (larc.Strategy, {"name": "a", "scale": 1.0, "offsets": (0.0, 1.0), "rule": "sgd:1"}),
            (larc.Grammar, {"rules": 'root ::= "a"'}),
            (larc.Grammar.choice, {"texts": ["a", "b"]}),
            (larc.Grammar.choice(["a"]).accepts, {"text": "a"}),
            (larc.SubprocessJudge, {"command": ["true"], "seconds": 1.0, "network": "any"}),
            (larc.ProposalTask, {"prompt": "q", "judge": _judge, "query": _judge, "name": "a"}),
            (larc.PlainPrompter().prompts, {"question": self.asked}),
        ]
        return [*listed, *((type(one), _fields(one)) for one in whole)]

    def _functions(self) -> list[tuple[Callable[..., Any], dict[str, Any]]]:
        """Return functions, and classes that hold a model."""
        task, slow, on = self.task, self.slow, self.substrate
        questions = [larc.Question(name, ("3", "4"), prompt="Even? ") for name in "ab"]
        stream = [larc.Recorded(one, asked=0, arrives=1, label=0) for one in questions]
        evaluated = {"seed": 1, "inner_steps": 1, "rule": larc.SGD(0.1), "limits": larc.Limits()}
        trained = {"substrate": on, "updates": 1, "seed": 1, "batch": 1}
        settings = larc.TrainingSettings(batch=1)
        strategies = [larc.Strategy("keep")]
        return [
            (larc.load_substrate, {"source": "tiny", "chunk_positions": 64, "texts": "plain"}),
            (larc.Substrate, {"name": "x", "model": on.model, "tokenizer": on.tokenizer}),
            (larc.SlowState.initial, {"substrate": on, "rank": 2, "seed": 1, "boundary": 0}),
            (larc.SlowState.from_pretrained, {"source": "/nowhere/x/y", "seed": 1}),
            (larc.SlowState.from_bytes, {"content": slow.to_bytes()}),
            (larc.Learner, {"substrate": on, "slow": slow, "rule": larc.SGD(), "limits": None}),
            (larc.Episode, {"learner": self.learner, "seed": 1}),
            (larc.train, {**trained, "tasks": [task]}),
            (larc.train, {**trained, "tasks": [task], "rank": 2, "normalise": "sum"}),
            (larc.train_streams, {**trained, "streams": [stream], "window": 2}),
            (larc.Trainer, _trainer(on, slow, settings, tasks=[task])),
            (larc.StreamTrainer, _trainer(on, slow, StreamSettings(batch=1), streams=[stream])),
            (LabelTrainer, _trainer(on, slow, labels=[larc.Label("q", ["a"], 0)], weights=[1.0])),
            (larc.predict, {"substrate": on, "slow": slow, "tasks": [task], **evaluated}),
            (larc.evaluate, {"substrate": on, "slow": slow, "tasks": [task], **evaluated}),
            (larc.judge, {"predictions": self.predictions, "tasks": [task], "seed": 1}),
            (
                larc.export_state,
                {"substrate": on, "state": "/nowhere", "out": "/dev/null/x", "to": "peft"},
            ),
            (
                larc.Session,
                {"learner": self.learner, "strategies": strategies, "seed": 1, "starts": {}},
            ),
            (
                larc.Controller,
                {"session": self.controller().session, "experts": [LabelFrequency()]},
            ),
        ]

    def _methods(self) -> list[tuple[Callable[..., Any], dict[str, Any]]]:
        """Return what is done with a state, a learner and an episode."""
        learner, episode, slow = self.learner, self.episode, self.slow
        question = {"prompt": "Even? ", "candidates": ["3", "4"]}
        feedback = larc.Label("q", ["a", "b"], 0)
        written = {"prompt": "q", "n": 1, "grammar": ["a", "b"], "seed": 1, "max_tokens": 2}
        searched = {"prompt": "q", "judge": _judge, "rounds": 1, "n": 1, "grammar": ["a", "b"]}
        request = larc.proposals.sampling.Request("q", 1, 2, 1.0, larc.Grammar.choice(["a"]), 1)
        on_episode = partial(fresh, learner.begin, _of_episode)
        return [
            (slow.advanced, {"factors": slow.factors}),
            (slow.to, {"device": "cpu"}),
            (slow.check_fits, {"substrate": self.substrate}),
            (slow.save_pretrained, {"directory": "/dev/null/x"}),
            (learner.begin, {"seed": 1}),
            (learner.resume, {"path": self._files["episode"]}),
            (learner.prompt_length, {"prompt": "q"}),
            (learner.read_many, {"requests": [(episode, "q", ["a", "b"])]}),
            (learner.generate, {"requests": [(episode, "q")], "max_new_tokens": 1}),
            (learner.propose_many, {"requests": [(episode, request)]}),
            (partial(_entered, learner), {"episode": episode}),
            (partial(_updated, learner), {"feedback": feedback}),
            (episode.read, question),
            (episode.save, {"path": "/dev/null/x"}),
            (on_episode("update"), {"feedback": feedback}),
            (on_episode("propose"), written),
            (on_episode("improve"), searched),
            (
                on_episode("improvement"),
                {"prompt": "q", "settings": larc.ImproveSettings(n=1, rounds=1)},
            ),
        ]

    def _live(self) -> list[tuple[Callable[..., Any], dict[str, Any]]]:
        """Return what is done with sessions and controllers, each time with one of its own."""
        other = larc.Question("b", ("3", "4"), prompt="Odd? ")
        recorded = larc.Recorded(self.asked, asked=0, arrives=1, label=0)
        both: list[tuple[str, dict[str, Any]]] = [
            ("ask", {"questions": [other]}),
            ("plan", {"questions": [other]}),
            ("learn", {"labels": {"a": 0}}),
            ("plan_learning", {"labels": {"a": "3"}}),
            ("commit", {"plan": None, "results": []}),
            ("correct", {"name": "z", "label": 1}),
            ("retract", {"name": "z"}),
            ("arrive", {"items": [recorded]}),
            ("drop", {"names": ["a"]}),
            ("save", {"path": "/dev/null/x", "notes": None}),
        ]
        on_controller = partial(fresh, self.controller, _of_controller)
        on_session = partial(fresh, lambda: self.controller().session, _of_session)
        return [
            *((on_controller(name), given) for name, given in both),
            *((on_session(name), given) for name, given in both),
            (on_controller("restore"), {"path": self._files["controller"]}),
            (on_session("restore"), {"path": self._files["session"]}),
            (on_controller("to_bytes"), {"notes": 1}),
            (on_controller("from_bytes"), {"content": self.controller().to_bytes()}),
            (on_session("hold"), {"questions": [other]}),
            (on_session("checked"), {"labels": {"a": 0}}),
        ]


def fresh(
    make: Callable[[], Any], snapshot: Callable[[Any], Any], method: str
) -> Callable[..., Any]:
    """Return a method of something made for each call, which a refusal may not change."""

    def call(**given: Any) -> Any:
        one = make()
        before = snapshot(one)
        try:
            return getattr(one, method)(**given)
        except LarcError:
            if snapshot(one) != before:
                raise AssertionError("it was refused and changed something") from None
            raise

    example = getattr(make(), method)
    call.__qualname__ = example.__qualname__
    call.__signature__ = inspect.signature(example)  # type: ignore[attr-defined]  # inspect reads it
    return call


def _of_episode(episode: larc.Episode) -> tuple[Any, ...]:
    stream = episode.stream.bit_generator.state
    return (episode.factors.A.tolist(), episode.factors.B.tolist(), episode.step, str(stream))


def _of_session(session: larc.Session) -> tuple[Any, ...]:
    episodes = {name: _of_episode(one) for name, one in session.episodes.items()}
    return (episodes, dict(session.pending), dict(session.labelled), session.events)


def _of_controller(controller: larc.Controller) -> tuple[Any, ...]:
    return (*_of_session(controller.session), controller.to_bytes())


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _trainer(on: larc.Substrate, slow: larc.SlowState, *settings: Any, **more: Any) -> Any:
    named = {"settings": settings[0]} if settings else {}
    return {"substrate": on, "slow": slow, **named, **more}


def _judge(texts: Sequence[str]) -> list[float]:
    return [1.0 for _ in texts]


def _name(function: Callable[..., Any]) -> str:
    inner = function.func if isinstance(function, partial) else function
    return inner.__qualname__


def _entered(learner: larc.Learner, episode: Any) -> None:
    with learner.active(episode):
        pass


def _updated(learner: larc.Learner, feedback: Any) -> None:
    learner.update_many([(learner.begin(), feedback)])


#: Commands that end in a refusal whatever is put into one word of them: what they name is nowhere.
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("study", "programs", "--preset", "smoke", "--out", "/dev/null", "--rank", "2"),
    ("study", "programs", "--preset", "smoke", "--out", "/dev/null", "--rule", "sgd:1"),
    ("study", "tasks", "--preset", "smoke", "--tasks", "/nowhere.jsonl", "--out", "/dev/null"),
    ("study", "ci", "--preset", "smoke", "--jobs", "/nowhere", "--out", "/dev/null"),
    ("study", "stream", "--preset", "smoke", "--events", "/nowhere", "--out", "/dev/null"),
    ("study", "streams", "--preset", "smoke", "--data", "/nowhere", "--out", "/dev/null"),
    ("study", "synthesis", "--preset", "smoke", "--out", "/dev/null", "--n", "2"),
    ("study", "controller", "--run", "/nowhere", "--out", "/dev/null"),
    ("study", "prefix", "--run", "/nowhere", "--out", "/dev/null"),
    ("study", "final", "/nowhere"),
    ("report", "/nowhere", "--out", "/dev/null"),
    ("verify", "/nowhere"),
    ("pack", "/nowhere", "--out", "/dev/null"),
    ("unpack", "/nowhere", "--out", "/dev/null"),
    ("package", "/nowhere", "--out", "/dev/null", "--objective", "adapted"),
    ("export", "/nowhere", "--to", "peft", "--out", "/dev/null", "--substrate", "tiny"),
    ("ci", "baseline", "/nowhere", "--renamed", "a=b"),
    ("ci", "fetch", "a/b", "--since", "2026-01-01", "--until", "2026-01-02", "--out", "/dev/null"),
    ("ci", "backfill", "/nowhere", "--to", "http://127.0.0.1:1", "--token-file", "/nowhere"),
    ("ci", "replay-webhooks", "/nowhere", "--hook", "ours", "--secret-file", "/nowhere"),
    ("ci", "live", "/nowhere", "--data", "/dev/null", "--substrate", "nowhere", "--port", "0"),
    ("adapter", "--substrate", "nowhere", "--out", "/dev/null", "--updates", "1"),
    ("bench", "--substrate", "nowhere", "--only", "reads", "--out", "/dev/null/bench.md"),
    ("demo", "--substrate", "nowhere", "--state", "/nowhere", "--rule", "sgd:1"),
    ("serve", "--data", "/dev/null", "--substrate", "nowhere", "--state", "/nowhere"),
    ("serve", "--data", "/dev/null", "--substrate", "tiny", "--port", "0", "--threads", "1"),
    ("serve", "retrain", "--data", "/dev/null", "--name", "night", "--until", "9"),
    ("fetch", "nowhere", "--from", "/nowhere"),
    ("completion", "bash"),
)


def commands() -> dict[tuple[str, ...], list[str]]:
    """Return every command of the command line with the options that it has."""

    def walk(parser: argparse.ArgumentParser, words: tuple[str, ...]) -> None:
        below = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
        if not below or parser.get_default("perform"):  # a command may have parts besides
            options = (action.option_strings for action in parser._actions)
            known[words] = [names[-1] for names in options if names]
        for action in below:
            for name, inner in action.choices.items():
                walk(inner, (*words, name))

    known: dict[tuple[str, ...], list[str]] = {}
    walk(_parser(), ())
    return known
