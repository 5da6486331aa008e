"""Training through the stream for CI jobs, tried within the training windows of the queue.

Run with `python -m benchmarks.trials.ci_through --jobs FILE,FILE --start results/programs-26`.
The first two thirds of each repository's training window are trained on, the last third is
answered; the audit windows are never read. Rows go to `--out`, and a trial that is there already is
not done again.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from larc.domains.ci.jobs import Job
from larc.domains.ci.prompter import recorded_job
from larc.domains.ci.split import Split, Window, split_jobs
from larc.feedback import Label
from larc.learner import Learner
from larc.rules import parse_rule
from larc.runs.units import cache_size
from larc.state import SlowState
from larc.stream.question import Recorded, labels_of, questions_of
from larc.stream.queue import Ask
from larc.stream.session import Session
from larc.stream.strategies import Strategy
from larc.studies.ci.prompts import causal_prompts
from larc.studies.ci.queue import audit_queue
from larc.studies.ci.settings import CISettings
from larc.studies.ci.units import VIEWS
from larc.studies.replay import item_weights, ordered
from larc.studies.starts import earlier_state
from larc.substrate import Substrate, load_substrate
from larc.training.base import AdamW, SlowTrainer
from larc.training.labels import LabelTrainer
from larc.training.streams import StreamSettings, StreamTrainer


@dataclass(frozen=True)
class Trial:
    """One training: how, by which rule, and in how much of the budget."""

    gradient: str = "first-order"
    rule: str = "sgd:0.02"
    step_rate: float = 0.0
    rate: float = 1e-3
    loss: str = "cross-entropy"
    window: int = 32
    windows: int = 2
    #: The share of the updates that go on labels alone first, as the paper's training does.
    static: float = 0.0


def inner_split(settings: CISettings) -> Split:
    """Return the training window divided again: two thirds to train on, a third to answer."""
    jobs = audit_queue(settings).training
    counts: dict[str, int] = {}
    for job in jobs:
        counts[job.repository] = counts.get(job.repository, 0) + 1
    windows = {name: (Window(jobs=2 * n // 3), Window(jobs=n)) for name, n in counts.items()}
    return split_jobs(jobs, windows)


def trained(
    substrate: Substrate, start: SlowState, jobs: Sequence[Job], trial: Trial, settings: CISettings
) -> SlowState:
    """Return the state of a trial: as many updates as an epoch of labels has."""
    put, _ = causal_prompts([recorded_job(job) for job in jobs])
    updates = math.ceil(len(VIEWS) * len(put) / settings.batch)
    first = round(updates * trial.static)
    seed, outer = settings.seeds[0], AdamW(learning_rate=trial.rate)
    labels = [
        Label(prompts[view], item.question.candidates, item.right)
        for item, prompts in put
        for view in VIEWS
    ]
    weights = np.repeat(item_weights([item for item, _ in put]), len(VIEWS)).tolist()
    trainer: SlowTrainer = LabelTrainer(
        substrate,
        start,
        labels,
        weights,
        batch=settings.batch,
        seed=seed,
        outer=AdamW(learning_rate=settings.learning_rate),
        limits=settings.limits,
    )
    start = advanced(trainer, first)
    streams: dict[tuple[str, str], list[Recorded]] = {}
    for item, prompts in put:
        for view in VIEWS:
            question = replace(item.question, prompt=prompts[view], source=None)
            streams.setdefault((item.stream, view), []).append(replace(item, question=question))
    how = StreamSettings(
        gradient=trial.gradient,  # type: ignore[arg-type]  # checked by the settings
        loss=trial.loss,  # type: ignore[arg-type]
        window=trial.window,
        batch=trial.windows,
        rule=parse_rule(trial.rule),
        seed=seed,
        outer=outer,
        step_rate=trial.step_rate,
    )
    through = StreamTrainer(
        substrate, start, [streams[key] for key in sorted(streams)], how, settings.limits
    )
    return advanced(through, updates - first)


def advanced(trainer: SlowTrainer, updates: int) -> SlowState:
    """Return a trainer's state after so many updates."""
    for number in range(updates):
        loss = trainer.advance()
        print(f"{type(trainer).__name__} {number + 1} of {updates}: {loss:.3f}", file=sys.stderr)
    return trainer.slow


def losses(
    substrate: Substrate, slow: SlowState, rules: Sequence[str], split: Split, settings: CISettings
) -> dict[str, float]:
    """Return the half-Brier loss on the last third, for each rule with and without memory."""
    strategies = [Strategy(f"reset {v}", v, "reset") for v in VIEWS]
    strategies += [Strategy(f"{rule} {v}", v, rule=rule) for rule in rules for v in VIEWS]
    learner = Learner(substrate, slow, parse_rule(rules[0]), limits=settings.limits)
    _, past = causal_prompts([recorded_job(job) for job in split.training])
    answers: dict[str, list[float]] = {one.name: [] for one in strategies}
    items: list[Recorded] = []
    for repository in sorted({job.repository for job in split.audit}):
        session = Session(learner, strategies, past.fork(repository), seed=settings.seeds[0])
        asked = [recorded_job(job) for job in split.audit if job.repository == repository]
        for event in ordered(asked):
            if not isinstance(event, Ask):
                session.learn(labels_of(event.items))
                continue
            told: Mapping[str, Any] = session.ask(questions_of(event.items))
            items += event.items
            for name, policies in told.items():
                for item, policy in zip(event.items, policies, strict=True):
                    right = np.eye(len(policy))[item.right]
                    answers[name].append(float(((np.asarray(policy) - right) ** 2).sum() / 2))
    weights = item_weights(items)
    return {name: float(weights @ np.array(values)) for name, values in answers.items()}


def main() -> None:
    """Do the trials that are given, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", required=True)
    parser.add_argument("--start", required=True)
    parser.add_argument("--out", type=Path, default=Path("runs/ci-through-trials.jsonl"))
    parser.add_argument("--trial", action="append", required=True, help="a JSON object")
    parser.add_argument("--rules", default="sgd:0.005,sgd:0.02")
    parser.add_argument("--seed", type=int, default=2026092811)
    options = parser.parse_args()
    torch.set_num_threads(1)
    settings = CISettings(
        jobs=tuple(options.jobs.split(",")),
        boundary=26,
        start=options.start,
        threads=1,
        seeds=(options.seed,),
    )
    split = inner_split(settings)
    substrate = load_substrate(settings.substrate, cache_bytes=cache_size())
    content = earlier_state(options.start, "static", options.seed, settings)
    start = SlowState.from_bytes(content, "the start")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    done = options.out.read_text().splitlines() if options.out.exists() else []
    known = [json.loads(line)["trial"] for line in done]
    for text in options.trial:
        trial = Trial(**json.loads(text))
        if {**asdict(trial), "seed": options.seed} in known:
            continue
        began = time.monotonic()
        slow = trained(substrate, start, split.training, trial, settings)
        fitted = time.monotonic()
        rules = [slow.rule or trial.rule, *filter(None, options.rules.split(","))]
        row = {
            "trial": {**asdict(trial), "seed": options.seed},
            "rule": slow.rule,
            "losses": losses(substrate, slow, list(dict.fromkeys(rules)), split, settings),
            "minutes": [
                round((b - a) / 60, 1) for a, b in ((began, fitted), (fitted, time.monotonic()))
            ],
        }
        with options.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
