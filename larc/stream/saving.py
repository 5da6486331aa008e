"""Saved sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from larc.errors import LarcError
from larc.io.states import load_state, save_state, whole
from larc.residual import Factors
from larc.rules import rule_facts
from larc.stream.awaited import Pending
from larc.stream.question import Question

if TYPE_CHECKING:
    from larc.stream.session import Session

SESSION_FILE = "larc live session, version 3"


def _with_names_of_version_3(facts: Any) -> Any:
    """Upgrade facts that called strategies paths, and kept prompts without their candidates."""
    return {
        **{key: value for key, value in facts.items() if key not in ("paths", "room", "pending")},
        "strategies": [
            {
                **{key: value for key, value in path.items() if key not in ("permuted",)},
                "retention": "keep" if path["retention"] == "carry" else path["retention"],
                "sham": path["permuted"],
            }
            for path in facts["paths"]
        ],
        "prompter": facts["room"],
        "pending": {
            name: {"candidates": None, "prompt": "", "source": None, "prompts": prompts}
            for name, prompts in facts["pending"].items()
        },
    }


SESSION_UPGRADES = {
    # Version 1 did not say by which rule its states move, and its paths had none of their own.
    1: lambda facts: {
        **facts,
        "rule": None,
        "paths": [{**path, "rule": ""} for path in facts["paths"]],
    },
    2: _with_names_of_version_3,
}


def save_session(session: Session, path: str | Path, notes: Any) -> None:
    """Write everything the next event depends on to one file, with the caller's own notes."""
    tensors, episodes = {}, {}
    for strategy in session.strategies:
        episode = session.episodes[strategy.name]
        tensors[f"{strategy.name}.A"] = episode.factors.A
        tensors[f"{strategy.name}.B"] = episode.factors.B
        episodes[strategy.name] = {
            "step": episode.step,
            "stream": episode.stream.bit_generator.state,
            "slow": episode.slow.digest,
        }
    facts = {
        "rule": rule_facts(session.learner.rule),
        "strategies": [strategy.facts() for strategy in session.strategies],
        "episodes": episodes,
        "pending": {name: _packed(session, pending) for name, pending in session.pending.items()},
        "prompter": session.prompter.state(),
        "events": session.events,
        "notes": notes,
    }
    save_state(path, SESSION_FILE, tensors, facts)


def _packed(session: Session, pending: Pending) -> dict[str, Any]:
    question = pending.question
    if not question.candidates:  # of a file of before version 3: still unknown
        return {"candidates": None, "prompt": "", "source": None, "prompts": pending.prompts}
    return {
        "candidates": list(question.candidates),
        "prompt": question.prompt,
        "source": session.prompter.pack(question.source),
        "prompts": dict(pending.prompts),
    }


def _unpacked(session: Session, name: str, facts: Any, given: Mapping[str, Question]) -> Pending:
    prompts = {str(view): str(text) for view, text in facts["prompts"].items()}
    if facts["candidates"] is None:  # of before version 3, which did not keep them
        if name in given:
            return Pending(given[name], prompts)
        question = Question.__new__(Question)
        for field, value in (("name", name), ("candidates", ()), ("prompt", "")):
            object.__setattr__(question, field, value)
        object.__setattr__(question, "source", None)
        return Pending(question, prompts)
    source = session.prompter.unpack(facts["source"])
    candidates = tuple(str(text) for text in facts["candidates"])
    return Pending(Question(name, candidates, str(facts["prompt"]), source), prompts)


def restore_session(session: Session, path: str | Path, questions: Sequence[Question]) -> Any:
    """Go back to a saved point of this same session; returns the notes saved with it.

    Parameters
    ----------
    path
        The file.
    questions
        What was asked, for a file of before version 0.2, which did not keep it.
    """
    tensors, facts = load_state(path, SESSION_FILE, SESSION_UPGRADES)
    with whole(path, SESSION_FILE):
        return _restore(session, path, tensors, facts, {one.name: one for one in questions})


def _restore(
    session: Session,
    path: str | Path,
    tensors: Mapping[str, Tensor],
    facts: Any,
    given: Mapping[str, Question],
) -> Any:
    if facts["strategies"] != [strategy.facts() for strategy in session.strategies]:
        raise LarcError(f"{path} is of a session with other strategies; restore it with its own.")
    if facts["rule"] not in (None, rule_facts(session.learner.rule)):
        raise LarcError(
            f"{path} is of a session with the update rule {facts['rule']}, not "
            f"{session.learner.rule}; restore it with its own."
        )
    for strategy in session.strategies:
        saved = facts["episodes"][strategy.name]
        if saved["slow"] != session.episodes[strategy.name].slow.digest:
            raise LarcError(f"{path} started strategy {strategy.name!r} from another slow state.")
    # Everything is made before anything is changed.
    device = session.learner.substrate.device
    states = []
    for strategy in session.strategies:
        saved, stream = facts["episodes"][strategy.name], np.random.default_rng()
        factors = Factors(tensors[f"{strategy.name}.A"], tensors[f"{strategy.name}.B"])
        factors = factors.to(device)
        factors.check_like(session.learner.slow.factors)
        stream.bit_generator.state = saved["stream"]
        states.append((factors, int(saved["step"]), stream))
    pending = {
        name: _unpacked(session, name, kept, given) for name, kept in facts["pending"].items()
    }
    events, notes = int(facts["events"]), facts["notes"]
    session.prompter.restore(facts["prompter"])
    for strategy, (factors, step, stream) in zip(session.strategies, states, strict=True):
        episode = session.episodes[strategy.name]
        episode.factors, episode.step, episode.stream = factors, step, stream
    session.pending, session.events = pending, events
    session.point += 1
    return notes
