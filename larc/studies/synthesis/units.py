"""The units of the synthesis study.

A training for each seed; for each condition and seed the searches of all problems, side by side.
Searches are on record before what they are judged on is opened.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from larc.domains.programs.searches import enumerate_programs, evolve
from larc.domains.programs.synthesis import Problem
from larc.io.hashes import sha256
from larc.io.parquet import from_parquet, to_parquet
from larc.learner import Learner
from larc.progress import Display
from larc.proposals.grammar import Grammar
from larc.proposals.improving import (
    Improvement,
    ImproveSettings,
    Judge,
    learn_together,
    propose_together,
    restore_together,
    save_together,
)
from larc.rules import parse_rule
from larc.runs.engines import Files
from larc.runs.run import Run
from larc.runs.settings import Execution
from larc.runs.stopping import stoppable
from larc.runs.units import Checkpoint, ModelUnit, Unit, counted, do_all, hashes, recount
from larc.state import SlowState
from larc.studies.fitting import fit_trainer
from larc.studies.settings import fit_name
from larc.studies.synthesis.problems import Puzzle, Puzzles, group_of, kind_of, length_of
from larc.studies.synthesis.settings import SynthesisSettings
from larc.substrate import Substrate
from larc.training.base import AdamW
from larc.training.proposals import ProposalTask, ProposalTrainer
from larc.training.tasks import TrainingSettings

QUERIES = "queries"
#: What a stream is for: dealing sham losses, drawing texts, letting programs evolve.
Purpose = Literal["deal", "draw", "evolve"]


@dataclass(frozen=True)
class Condition:
    """A way to search with the model.

    Attributes
    ----------
    trained
        Whether it starts from the trained state.
    keep, sham
        Whether it keeps what it learns, and learns from losses dealt at random.
    hot, text
        Whether it samples at the higher temperature, and reads its losses in the prompt.
    """

    name: str
    trained: bool = True
    keep: bool = False
    sham: bool = False
    hot: bool = False
    text: bool = False


CONDITIONS = (
    Condition("LEARN", keep=True),
    Condition("RESET"),
    Condition("SHAM", keep=True, sham=True),
    Condition("HOT", hot=True),
    Condition("TEXT", text=True),
    Condition("UNTRAINED", trained=False),
    Condition("UNTRAINED-LEARN", trained=False, keep=True),
    Condition("UNTRAINED-TEXT", trained=False, text=True),
)
WITHOUT_MODEL = ("EVOLUTION", "ENUMERATION")


def conditions(settings: SynthesisSettings) -> tuple[Condition, ...]:
    """Return the conditions of a study; without a training, the start is the untrained one.

    Examples
    --------
    >>> len(conditions(SynthesisSettings())), len(conditions(SynthesisSettings(updates=0)))
    (8, 5)
    """
    return tuple(one for one in CONDITIONS if one.trained or settings.updates)


@dataclass(frozen=True, kw_only=True)
class Fit(ModelUnit):
    """The training of one seed's start."""

    settings: SynthesisSettings
    seed: int
    problems: Sequence[Puzzle]

    @property
    def name(self) -> str:
        """The unit's name: the seed."""
        return fit_name("", self.seed)

    def compute(self, substrate: Substrate, display: Display) -> Files:
        """Train through searches of a few rounds, from where a stopped training was."""
        settings = self.settings
        tasks = [
            ProposalTask(p.prompt, p.judge(), p.judge(), p.name, [p.answer], Grammar(p.rules))
            for p in self.problems
        ]
        how = TrainingSettings(
            batch=settings.batch,
            rule=parse_rule(settings.rule),
            seed=self.seed,
            outer=AdamW(learning_rate=settings.learning_rate),
        )
        search = replace(
            _how(settings, CONDITIONS[0]),
            calls=None,
            rounds=settings.training_rounds,
            learn_last=True,
        )
        start = _untrained(self, substrate)
        trainer = ProposalTrainer(substrate, start, tasks, how, search, settings.limits)
        return fit_trainer(self, trainer, settings.updates, substrate, display, every=1)


@dataclass(frozen=True, kw_only=True)
class Searches(ModelUnit):
    """The searches of one condition with one seed."""

    settings: SynthesisSettings
    condition: Condition
    seed: int
    problems: Sequence[Puzzle]
    slow: bytes = b""

    @property
    def name(self) -> str:
        """The unit's name: the condition and the seed."""
        return search_name(self.condition.name, self.seed)

    def compute(self, substrate: Substrate, display: Display) -> Files:
        """Search for all problems in lockstep, saving after every round."""
        settings, condition = self.settings, self.condition
        slow = _untrained(self, substrate)
        if self.slow:
            slow = SlowState.from_bytes(self.slow, self.name).to(substrate.device)
        learner = Learner(substrate, slow, parse_rule(settings.rule), limits=settings.limits)
        how = _how(settings, condition)
        searches = []
        for problem in self.problems:
            # All conditions draw alike: they differ in what they learned.
            episode = learner.begin(derived_seed(self.seed, problem.name, "deal"))
            search = episode.improvement(
                problem.prompt,
                how,
                grammar=Grammar(problem.rules),
                seed=derived_seed(self.seed, problem.name, "draw"),
            )
            if condition.text:
                search.ask = partial(_told, problem, settings.tried)
            searches.append(search)
        checkpoint = Checkpoint(self, "checkpoint.safetensors")
        if checkpoint.exists():
            recount(substrate, restore_together(checkpoint.path, searches))
        judges = [problem.judge() for problem in self.problems]
        rounds = -(-settings.calls // settings.n)
        with stoppable() as stopped:
            while not all(search.ended for search in searches):
                done = max(search.round for search in searches)
                display.unit(self.name, rounds, done)
                texts = propose_together(searches)
                learn_together(
                    (search, judge(written))
                    for search, judge, written in zip(searches, judges, texts, strict=True)
                    if written
                )
                display.update(done + 1, _mean_best(searches))
                if checkpoint.usable:
                    save_together(checkpoint.path, searches, counted(substrate))
                if stopped():
                    raise KeyboardInterrupt
        rows = []
        for problem, judge, search in zip(self.problems, judges, searches, strict=True):
            judged = [(one.text, one.loss) for one in search.judged]
            rows += _rows(condition.name, self.seed, problem, judge, judged)
        return {"searches.parquet": to_parquet(rows)}


@dataclass(frozen=True, kw_only=True)
class PlainSearches(Unit):
    """The searches of one condition without a model."""

    settings: SynthesisSettings
    condition: str
    seed: int
    problems: Sequence[Puzzle]

    @property
    def name(self) -> str:
        """The unit's name: the condition and the seed."""
        return search_name(self.condition, self.seed)

    def perform(self, display: Display) -> Files:
        """Enumerate, or let programs evolve."""
        rows = []
        for problem in self.problems:
            calls, judge = self.settings.calls, problem.judge()
            if not isinstance(problem, Problem):
                judged = _shortest(problem, judge, calls)
            elif self.condition == "EVOLUTION":
                seed = derived_seed(self.seed, problem.name, "evolve")
                judged = evolve(problem.family, judge, calls, seed)
            else:
                judged = enumerate_programs(problem.family, judge, calls)
            rows += _rows(self.condition, self.seed, problem, judge, judged)
        return {"searches.parquet": to_parquet(rows)}


def carry_out(
    run: Run, puzzles: Puzzles, settings: SynthesisSettings, execution: Execution
) -> None:
    """Do whatever a run still lacks, in the order of evidence."""
    display = Display()
    fits = [
        Fit(settings=settings, seed=seed, problems=puzzles.training)
        for seed in (settings.seeds if settings.updates else ())
    ]
    do_all(run, fits, execution, display)
    run.record("training finished", {"slow": hashes(run, fits, "slow.safetensors")})
    searches: list[Unit] = [
        Searches(
            settings=settings,
            condition=condition,
            seed=seed,
            problems=puzzles.searched,
            slow=run.unit_file(fit_name("", seed), "slow.safetensors")
            if condition.trained and settings.updates
            else b"",
        )
        for condition in conditions(settings)
        for seed in settings.seeds
    ]
    searches += [
        PlainSearches(settings=settings, condition=name, seed=seed, problems=puzzles.searched)
        for name in without_model(settings)
        for seed in settings.seeds
    ]
    do_all(run, searches, execution, display)
    written = hashes(run, searches, "searches.parquet")
    run.record("searches written", {"searches": written})
    run.record("queries opened", {})
    if not run.is_done(QUERIES):
        run.finish_unit(QUERIES, {"queries.parquet": _queries(run, written, puzzles)})
    run.record("queries written", {"queries": sha256(run.unit_file(QUERIES, "queries.parquet"))})


def derived_seed(seed: int, name: str, purpose: Purpose) -> int:
    """Return the seed of one of a problem's streams: of the study's seed, its name, and what for.

    Streams of two problems, of two seeds, or for two purposes are independent; all conditions have
    the same ones.

    Examples
    --------
    >>> names = ["list/0,6/sort", "list/0,5/sort"]
    >>> len({derived_seed(seed, name, "draw") for seed in (1, 2) for name in names})
    4
    """
    hashed = np.frombuffer(hashlib.sha256(name.encode()).digest(), np.uint32)
    words = [seed, get_args(Purpose).index(purpose), *hashed.tolist()]
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0])


def without_model(settings: SynthesisSettings) -> tuple[str, ...]:
    """Return the searches without a model; expressions of functions are enumerated only.

    Examples
    --------
    >>> without_model(SynthesisSettings(domain="functions"))
    ('ENUMERATION',)
    """
    return WITHOUT_MODEL if settings.domain == "programs" else WITHOUT_MODEL[1:]


def search_name(condition: str, seed: int) -> str:
    """Return the name of the unit of a condition's searches.

    Examples
    --------
    >>> search_name("UNTRAINED-LEARN", 7)
    'search-untrained-learn-7'
    """
    return f"search-{condition.lower()}-{seed}"


def _queries(run: Run, units: dict[str, str], puzzles: Puzzles) -> bytes:
    """Return whether each search's answer is right on what was kept back."""
    problems = {problem.name: problem for problem in puzzles.searched}
    texts: dict[tuple[str, str], None] = {}
    for unit in units:
        rows = from_parquet(run.unit_file(unit, "searches.parquet"), unit)
        texts |= dict.fromkeys((row["name"], row["text"]) for row in answers(rows))
    rows = [
        {"name": name, "text": text, "right": problems[name].solved_by(text)}
        for name, text in texts
    ]
    # A table has columns even where nothing was found.
    return to_parquet([*rows, {"name": "", "text": "", "right": False}])


def answers(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the answer of each search that has one: the first text that is right on its examples.

    Others of its round, which were judged as well, come too late.

    Examples
    --------
    >>> row = {"condition": "RESET", "seed": 1, "name": "a"}
    >>> losses = {1: 0.5, 2: 0.0, 3: 0.0}
    >>> rows = [{**row, "call": call, "loss": loss} for call, loss in losses.items()]
    >>> [answer["call"] for answer in answers(rows)]
    [2]
    """
    first: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for row in sorted(rows, key=lambda row: int(row["call"])):
        if row["loss"] == 0:
            first.setdefault((row["condition"], row["seed"], row["name"]), row)
    return list(first.values())


def _how(settings: SynthesisSettings, condition: Condition) -> ImproveSettings:
    return ImproveSettings(
        n=settings.n,
        max_tokens=settings.candidate_limit,
        temperature=settings.hot if condition.hot else settings.temperature,
        steps=settings.steps,
        pool=settings.pool,
        calls=settings.calls,
        keep=condition.keep,
        sham=condition.sham,
        learn_last=False,
    )


def _told(problem: Puzzle, most: int, search: Improvement) -> str:
    """Return the prompt of the text baseline: the best texts so far with their losses."""
    best = sorted(search.judged, key=lambda one: one.loss)[:most]
    return problem.prompt_with([(one.text, one.loss) for one in best])


def _untrained(unit: Fit | Searches, substrate: Substrate) -> SlowState:
    settings = unit.settings
    return SlowState.initial(
        substrate, rank=settings.rank, seed=unit.seed, boundary=settings.boundary
    )


def _mean_best(searches: Sequence[Improvement]) -> float:
    best = [search.best.loss for search in searches if search.best is not None]
    return sum(best) / max(len(best), 1)


def _shortest(problem: Puzzle, judge: Judge, calls: int) -> list[tuple[str, float]]:
    judged: list[tuple[str, float]] = []
    for text in Grammar(problem.rules).texts():
        if len(judged) == calls:
            break
        judged.append((text, judge([text])[0]))
        if judged[-1][1] == 0:
            break
    return judged


def _rows(
    condition: str, seed: int, problem: Puzzle, judge: Judge, judged: Sequence[tuple[str, float]]
) -> list[dict[str, Any]]:
    late = set(getattr(judge, "late", ()))
    return [
        {
            "condition": condition,
            "seed": seed,
            "name": problem.name,
            "family": problem.family,
            "group": group_of(problem),
            "kind": kind_of(problem),
            "length": length_of(problem),
            "call": number,
            "text": text,
            "loss": loss,
            "late": text in late,
        }
        for number, (text, loss) in enumerate(judged, start=1)
    ]
