"""Saving and restoring sessions: what changed is written, and all is checked before it is put."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from larc.errors import LarcError
from larc.io.journal import Family, Journal, journal_content
from larc.io.states import whole
from larc.residual import Factors
from larc.rules import rule_facts
from larc.stepping import Extras
from larc.stream.awaited import LabelMemory, PastLabel, Pending
from larc.stream.log import LearnedBatch, LearningLog, StatePoint
from larc.stream.question import LabelIs, Question
from larc.stream.session_file import (
    FACTORS,
    SESSION_FILE,
    SESSION_UPGRADES,
    SavedSession,
    factors_section,
    json_section,
    load_session,
)

if TYPE_CHECKING:
    from larc.learner import Episode
    from larc.stream.session import Session

__all__ = [
    "NOTES",
    "SESSION_FILE",
    "SESSION_UPGRADES",
    "Part",
    "SessionFile",
    "json_part",
    "later",
    "load_session",
]

NOTES, LABELLED = "notes", "labelled"
#: What a section is of, and how it is made: an object that is still the same is not made again.
Part = tuple[Any, Callable[[], bytes]]


@dataclass
class SessionFile:
    """Where a session was last saved to or restored from, and what is written there."""

    journal: Journal = field(default_factory=lambda: Journal(SESSION_FILE))
    _sections: dict[str, tuple[Any, bytes | Family]] = field(default_factory=dict, repr=False)
    _labels: Family = field(default_factory=Family, repr=False)
    #: What the sections of labels are of, and the names of those that the file has not got.
    _encoded: dict[str, PastLabel] = field(default_factory=dict, repr=False)
    _unsaved: dict[str, bool] | None = field(default=None, repr=False)

    def save(
        self, session: Session, path: str | Path, further: Mapping[str, Part], durable: bool
    ) -> None:
        """Write a session and further parts."""
        sections = self._made(session, further)
        contents = {name: content for name, (_, content) in sections.items()}
        self.journal.save(path, contents, durable=durable)
        self._sections = sections
        self._unsaved = session.labelled.follow()

    def content(self, session: Session, further: Mapping[str, Part]) -> bytes:
        """Return a session and further parts as the content of a file that was saved once."""
        sections = self._made(session, further)
        kept = {name: content for name, (_, content) in sections.items()}
        self._sections = sections
        return journal_content(SESSION_FILE, kept)

    def _made(
        self, session: Session, further: Mapping[str, Part]
    ) -> dict[str, tuple[Any, bytes | Family]]:
        """Return every section; one whose object is still the same is not made again."""
        self._encode_labels(session.labelled)
        sections: dict[str, tuple[Any, bytes | Family]] = {}
        for name, thing, encode in _all_parts(session, self._labels, further):
            old = self._sections.get(name)
            known = old is not None and thing is not None and old[0] is thing
            sections[name] = old if old is not None and known else (thing, encode(thing))
        return sections

    def _encode_labels(self, memory: LabelMemory) -> None:
        """Encode labels that changed since they were last saved, or all if that is not known.

        The same changes may come any number of times: until a save does not fail.
        """
        labels, unsaved = self._labels, memory.changed
        if unsaved is None or unsaved is not self._unsaved:
            sections: dict[str, bytes] = {}
            for name, past in memory.items():
                same = self._encoded.get(name) is past
                section = f"{LABELLED}/{name}"
                sections[section] = labels.sections[section] if same else _label_section(past)
            labels.sections, labels.changed = sections, None
            self._encoded = dict(memory.items())
            return
        changed: dict[str, bool] = {}
        for name, moved in unsaved.items():
            section = f"{LABELLED}/{name}"
            changed[section] = moved
            if moved:
                labels.sections.pop(section, None)
                self._encoded.pop(name, None)
            if name in memory:
                labels.sections[section] = _label_section(memory[name])
                self._encoded[name] = memory[name]
        labels.changed = changed

    def restore(self, session: Session, path: str | Path, questions: Sequence[Question]) -> Any:
        """Take a session to what a file holds; returns the notes."""
        return self.put(session, path, load_session(path), questions)

    def put(
        self, session: Session, path: str | Path, saved: SavedSession, questions: Sequence[Question]
    ) -> Any:
        """Take a session to what was loaded, or refuse it and change nothing."""
        with whole(path, SESSION_FILE):
            notes = _restore(session, path, saved, {one.name: one for one in questions})
        self.journal.adopt(path, saved.content, saved.sections)
        self._sections, self._encoded, self._unsaved = {}, {}, None
        return notes


def json_part(what: str, value: Any) -> Part:
    """Return JSON values that may have changed."""
    return None, lambda: json_section(what, value)


def _all_parts(
    session: Session, labels: Family, further: Mapping[str, Part]
) -> Iterator[tuple[str, Any, Callable[[Any], bytes | Family]]]:
    """Yield every section's name, what it is of, and how it is made of that.

    Labels are one part, which is made already: a session may know ten thousand of them.
    """
    pack = session.prompter.pack
    for name, (thing, encode) in _parts(session).items():
        yield name, thing, _made_by(encode)
    for name, pending in session.pending.items():
        yield f"pending/{name}", pending, lambda one: json_section("questions", _packed(pack, one))
    yield LABELLED, labels, lambda family: family
    for entry in session.log.entries:
        yield (
            f"log/{entry.number}",
            entry,
            lambda one: json_section("log", _packed_batch(pack, one)),
        )
        for name, point in entry.before.items():
            yield f"{FACTORS}/log/{entry.number}/{name}", point.factors, factors_section
    for name, (thing, encode) in further.items():
        yield name, thing, _made_by(encode)


def _made_by(encode: Callable[[], bytes]) -> Callable[[Any], bytes]:
    return lambda _: encode()


def _label_section(past: PastLabel) -> bytes:
    return json_section("labels", list(past))


def _parts(session: Session) -> dict[str, Part]:
    """Return what there is once in a session, and its states."""
    parts: dict[str, Part] = {
        "rule": (session.learner.rule, lambda: json_section("rule", _rule(session))),
        "strategies": (session.strategies, lambda: json_section("strategies", _facts(session))),
        "events": json_part("events", session.events),
        "prompter": json_part("memory of the prompter", session.prompter.state()),
    }
    for name, episode in session.episodes.items():
        parts[f"episodes/{name}"] = json_part("states", _episode(episode))
        parts[f"{FACTORS}/{name}"] = (episode.factors, _encoded(episode.factors))
    return parts


def _encoded(factors: Factors) -> Callable[[], bytes]:
    return lambda: factors_section(factors)


def later(what: str, function: Callable[..., Any], *values: Any) -> Callable[[], bytes]:
    """Return how to make a section, for when it is needed."""
    return lambda: json_section(what, function(*values))


def _rule(session: Session) -> Any:
    return rule_facts(session.learner.rule)


def _facts(session: Session) -> Any:
    return [strategy.facts() for strategy in session.strategies]


def _episode(episode: Episode) -> dict[str, Any]:
    stream = episode.stream.bit_generator.state
    extras = episode.extras.facts()
    return {"step": episode.step, "stream": stream, "slow": episode.slow.digest, **extras}


def _packed_batch(pack: Callable[[Any], Any], entry: LearnedBatch) -> dict[str, Any]:
    return {
        "batch": {name: _packed(pack, pending) for name, pending in entry.batch.items()},
        "values": dict(entry.values),
        "before": {
            name: {"step": point.step, "stream": point.stream, **point.extras.facts()}
            for name, point in entry.before.items()
        },
        "prompter": entry.prompter,
    }


def _packed(pack: Callable[[Any], Any], pending: Pending) -> dict[str, Any]:
    question = pending.question
    if not question.candidates:  # of a file of before version 3: still unknown
        return {"candidates": None, "prompt": "", "source": None, "prompts": dict(pending.prompts)}
    return {
        "candidates": list(question.candidates),
        "prompt": question.prompt,
        "source": pack(question.source),
        "prompts": dict(pending.prompts),
    }


def _unpacked(session: Session, name: str, facts: Any, given: Mapping[str, Question]) -> Pending:
    prompts = {str(view): str(text) for view, text in facts["prompts"].items()}
    if facts["candidates"] is None:  # of before version 3, which did not keep them
        if name in given:
            return Pending(given[name], prompts)
        question = Question.__new__(Question)
        for attribute, value in (("name", name), ("candidates", ()), ("prompt", "")):
            object.__setattr__(question, attribute, value)
        object.__setattr__(question, "source", None)
        return Pending(question, prompts)
    source = session.prompter.unpack(facts["source"])
    candidates = tuple(str(text) for text in facts["candidates"])
    return Pending(Question(name, candidates, str(facts["prompt"]), source), prompts)


def _restore(
    session: Session, path: str | Path, saved: SavedSession, given: Mapping[str, Question]
) -> Any:
    facts = saved.facts
    if facts["strategies"] != _facts(session):
        raise LarcError(f"{path} is of a session with other strategies; restore it with its own.")
    if facts["rule"] not in (None, _rule(session)):
        raise LarcError(
            f"{path} is of a session with the update rule {facts['rule']}, not "
            f"{session.learner.rule}; restore it with its own."
        )
    # Everything is made before anything is changed.
    states: dict[str, StatePoint] = {}
    for strategy in session.strategies:
        kept = facts["episodes"][strategy.name]
        if kept["slow"] != session.episodes[strategy.name].slow.digest:
            raise LarcError(f"{path} started strategy {strategy.name!r} from another slow state.")
        states[strategy.name] = _point(session, saved.factors[strategy.name], kept)
    pending = {n: _unpacked(session, n, kept, given) for n, kept in facts["pending"].items()}
    labelled = LabelMemory(session.limits.labelled)
    for name, (candidates, value, corrections) in facts["labelled"].items():
        texts = tuple(str(text) for text in candidates)
        labelled.remember(name, PastLabel(texts, _label(value), tuple(map(_label, corrections))))
    log = LearningLog(session.limits.log)
    for number, kept in facts["log"].items():
        log.add(_batch(session, int(number), kept, saved.factors))
    events, notes = int(facts["events"]), facts[NOTES]
    session.prompter.restore(facts["prompter"])
    for name, point in states.items():
        point.put(session.episodes[name])
    session.pending, session.labelled, session.log = pending, labelled, log
    session.events = events
    session.point = 1 + max([session.point, *(entry.number for entry in log.entries)])
    return notes


def _point(session: Session, factors: Factors, kept: Any) -> StatePoint:
    factors.check_like(session.learner.slow.factors)
    stream = np.random.default_rng()
    stream.bit_generator.state = kept["stream"]  # refuses what is no state of one
    factors = factors.to(session.learner.substrate.device)
    return StatePoint(factors, int(kept["step"]), kept["stream"], Extras.read(kept))


def _batch(
    session: Session, number: int, kept: Any, factors: Mapping[str, Factors]
) -> LearnedBatch:
    return LearnedBatch(
        number,
        {name: _unpacked(session, name, one, {}) for name, one in kept["batch"].items()},
        {str(name): _label(value) for name, value in kept["values"].items()},
        {
            name: _point(session, factors[f"log/{number}/{name}"], point)
            for name, point in kept["before"].items()
        },
        kept["prompter"],
    )


def _label(value: Any) -> LabelIs:
    return tuple(float(loss) for loss in value) if isinstance(value, list) else int(value)
