"""The report of a controller study: losses against HEDGE4, the bound, what parts are worth."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from larc.evaluation import (
    Verdict,
    brier_success,
    half_brier,
    nested_weights,
    restrict_weights,
    weighted_mean,
)
from larc.reporting.charts import Figure, Rows, Value
from larc.reporting.report import Report
from larc.reporting.seeds import seed_columns, seed_row, short_seed
from larc.reporting.tables import Cell, Table
from larc.runs.run import Run
from larc.studies.audited_run import REPLAY, replayed_settings
from larc.studies.controller.units import CONTROLLER, GROUPS, LIVE, MIXED, WORDED
from larc.studies.replay_tables import unit_rows

Array = NDArray[np.float64]
HEDGE = "HEDGE4"
QUESTION = (
    "Can arriving labels decide which learned states to trust, so that the whole is better than "
    "HEDGE4, which has no language model?"
)
NOTES = (
    "CONTROLLER mixes what the CI run saved; LIVE keeps the states itself, and lets those that "
    "evidence has ruled out sleep.",
    "The bound is on the sum of losses over a repository's audit, each job counted once, and holds "
    "against a predictor over the jobs it answered: all, but for states asleep in LIVE. The "
    "primary score weighs jobs otherwise, by commit, and no bound on it can be stated beforehand.",
    "HEDGE4's logistic expert has unit-length features that were chosen after looking at scores of "
    "both whole histories (five variants), so HEDGE4 is not blind to them. Nor is the controller: "
    "its learning rates and shares were chosen after mixing HEDGE4's experts, with no model, over "
    "long stretches of both histories, one of which contains the audit of bitcoin/bitcoin.",
)


@dataclass(frozen=True, eq=False)
class ControllerResults:
    """Half-Brier losses ``[seeds, jobs]`` by path, and what the mixtures told of themselves."""

    seeds: tuple[int, ...]
    repositories: tuple[str, ...]
    commits: tuple[str, ...]
    names: tuple[str, ...]
    loss: dict[str, Array]
    told: tuple[dict[str, Any], ...]
    synthetic: bool

    @property
    def primary(self) -> Array:
        """Repositories equally, commits within them, jobs within those."""
        return nested_weights(self.repositories, self.commits, self.names)

    def scores(self, path: str) -> Array:
        """Return a path's loss by seed, with the primary weights."""
        return weighted_mean(self.loss[path], self.primary)

    def verdict(self, path: str) -> Verdict:
        """Judge a path against HEDGE4 by the paper's rule."""
        return brier_success(self.scores(HEDGE).tolist(), self.scores(path).tolist())

    @property
    def final(self) -> str:
        """The controller as it would be used: live, if it was."""
        return LIVE if LIVE in self.loss else CONTROLLER


def load_results(run: Run) -> ControllerResults:
    """Read what a run saved, and score it."""
    written = run.recorded_units("predictions written", "predictions")
    live = sorted(unit for unit in written if unit not in (MIXED, WORDED))
    texts = [unit for unit in written if unit == WORDED]
    trust: list[dict[str, Any]] = run.unit_json(MIXED, "trust.json")
    rows = [
        row
        for unit in (REPLAY, *texts, MIXED, *live)
        for row in unit_rows(run, unit, "predictions.parquet")
    ]
    for unit in live:
        first = unit_rows(run, unit, "predictions.parquet")[0]
        about = {"seed": first["seed"], "repository": first["repository"], "variant": LIVE}
        trust.append({**about, **run.unit_json(unit, "trust.json")})
    facts = replayed_settings(run)
    seeds = tuple(facts["seeds"])
    jobs = {(r["repository"], r["name"]): r for r in rows if r["seed"] == seeds[0]}
    keys = sorted(jobs)
    labels = np.array([jobs[key]["label"] for key in keys])
    policies = {(r["seed"], r["path"], r["repository"], r["name"]): r["policy"] for r in rows}
    paths = list(dict.fromkeys(row["path"] for row in rows))
    loss = {
        path: np.stack(
            [half_brier(np.array([policies[s, path, *k] for k in keys]), labels) for s in seeds]
        )
        for path in paths
    }
    return ControllerResults(
        seeds,
        tuple(key[0] for key in keys),
        tuple(jobs[key]["commit"] for key in keys),
        tuple(key[1] for key in keys),
        loss,
        tuple(trust),
        bool(facts["synthetic"]),
    )


def report(run: Run) -> Report:
    """Return the report of a finished run."""
    results = load_results(run)
    title = "The controller" + (" (synthetic jobs)" if results.synthetic else "")
    tables = [_losses(results), _places(results), _ablation(results), _bounds(results)]
    tables += [_trust(results), _turns(results)]
    tables += [_naps(results)] if LIVE in results.loss else []
    notes = (_mixed_of(results), *NOTES)
    return Report(title, QUESTION, answer(results), tables, [_figure(results)], notes)


def _mixed_of(results: ControllerResults) -> str:
    known = [name for name, paths in GROUPS.items() if any(path in results.loss for path in paths)]
    words = "experts for text, " if "text" in known else ""
    states = ", ".join(name for name in known[1:] if name != "text")
    return (
        f"The controller mixes HEDGE4, its four experts, {words}and {states} states, with "
        "and without memory, by their losses on the labels that have arrived."
    )


def answer(results: ControllerResults) -> str:
    """Say how the controller compares with HEDGE4 and with the best that it mixes."""
    verdict = results.verdict(results.final)
    mine, hedge = (float(results.scores(path).mean()) for path in (results.final, HEDGE))
    single = _best(results)
    within = all(max(row["regrets"].values()) <= row["bound"]["total"] for row in _whole(results))
    return (
        f"Half-Brier loss was {mine:.4f} with the controller and {hedge:.4f} with HEDGE4; "
        f"it {'meets' if verdict.success else 'fails'} the rule of 0.01 on average and every seed "
        f"(gains {', '.join(f'{gain:.4f}' for gain in verdict.gains)}). The best single predictor, "
        f"known afterwards, is {single} with {float(results.scores(single).mean()):.4f}; the "
        f"largest regret was {'within' if within else 'NOT WITHIN'} its bound in every audit."
    )


def _whole(results: ControllerResults) -> list[dict[str, Any]]:
    return [row for row in results.told if row["variant"] in (CONTROLLER, LIVE)]


def _mixed(results: ControllerResults) -> list[str]:
    """Return the predictors that were mixed."""
    return [name for paths in GROUPS.values() for name in paths if name in results.loss]


def _best(results: ControllerResults) -> str:
    return min(_mixed(results), key=lambda path: float(results.scores(path).mean()))


def _mixtures(results: ControllerResults) -> list[str]:
    return [path for path in (CONTROLLER, LIVE) if path in results.loss]


def _losses(results: ControllerResults) -> Table:
    known = _mixed(results)
    rows: list[list[Cell]] = [
        seed_row(results.scores(path), path) for path in (*known, *_mixtures(results))
    ]
    least = weighted_mean(np.min([results.loss[path] for path in known], axis=0), results.primary)
    rows.append(seed_row(least, "best for each job, known afterwards"))
    return Table(
        "losses",
        "Half-Brier loss of every predictor and of the controller: repositories equally, commits "
        "within them, jobs within those. The best single predictor, known afterwards, is "
        f"{_best(results)}.",
        seed_columns(results.seeds, "Predictor"),
        rows,
        digits=4,
    )


def _places(results: ControllerResults) -> Table:
    """Return the losses by repository: which state to keep is a different question in each."""
    known, repositories = _mixed(results), list(dict.fromkeys(results.repositories))
    of, primary = np.array(results.repositories), results.primary
    weights = {
        repository: restrict_weights(primary, of == repository) for repository in repositories
    }
    mean = {
        path: [
            float(weighted_mean(results.loss[path], weights[repository]).mean())
            for repository in repositories
        ]
        for path in (*known, *_mixtures(results))
    }
    best = [min(known, key=lambda path: mean[path][number]) for number in range(len(repositories))]
    return Table(
        "repositories",
        "Half-Brier loss by repository, seeds averaged, commits weighing equally. The best single "
        "predictor, known afterwards: "
        + ", ".join(
            f"{name} in {repository}" for name, repository in zip(best, repositories, strict=True)
        )
        + ".",
        ("Predictor", *repositories),
        [[path, *losses] for path, losses in mean.items()],
        digits=4,
    )


def _ablation(results: ControllerResults) -> Table:
    variants = dict.fromkeys(row["variant"] for row in results.told) | {"plain mean": None}
    contexts: dict[str, set[int]] = {}
    for row in results.told:
        contexts.setdefault(row["variant"], set()).add(row.get("contexts", 0))
    rows: list[list[Cell]] = []
    for variant in variants:
        verdict = results.verdict(variant)
        gain = seed_row(np.array(verdict.gains), variant)
        counted = ", ".join(str(count) for count in sorted(contexts[variant]) if count)
        loss = float(results.scores(variant).mean())
        rows.append([*gain, loss, _word(verdict.success), counted or "–"])
    return Table(
        "ablation",
        "What each part is worth: gain over HEDGE4 in half-Brier loss by seed, the loss itself, "
        "the paper's rule, and the contexts that weights were kept for in an audit (with one, they "
        "are the common weights). Names with + add predictors to those of the row before; with all "
        "of them it is CONTROLLER.",
        (*seed_columns(results.seeds, "Variant"), "Loss", "Rule", "Contexts"),
        rows,
        digits=4,
    )


def _bounds(results: ControllerResults) -> Table:
    rows: list[list[Cell]] = []
    for row in _whole(results):
        best = max(row["regrets"], key=row["regrets"].get)
        regret, worst, bound = row["regrets"][HEDGE], row["regrets"][best], row["bound"]["total"]
        numbers = (regret, worst, best, bound, _word(worst <= bound))
        rows.append([row["variant"], row["repository"], short_seed(row["seed"]), *numbers])
    return Table(
        "bounds",
        "Regret against HEDGE4, and the largest against any predictor over the jobs that one "
        "answered, in total half-Brier loss over a repository's audit, and the bound that the "
        "forecaster states for its realised delays.",
        ("Controller", "Repository", "Seed", "HEDGE4", "Largest", "Whose", "Bound", "Within"),
        rows,
        digits=3,
    )


def _trust(results: ControllerResults) -> Table:
    rows: list[list[Cell]] = []
    for row in _whole(results):
        standings = row["trust"]["standings"]
        ranked = sorted(standings.items(), key=lambda pair: -pair[1]["mean_weight"])
        for name, standing in ranked[:6]:
            mean = standing["loss"] / standing["labels"] if standing["labels"] else None
            where = (row["variant"], row["repository"], short_seed(row["seed"]), name)
            rows.append([*where, standing["asked"], standing["mean_weight"], standing["led"], mean])
    return Table(
        "trust",
        "Whom it trusted: the six predictors of most weight in each audit, the questions they "
        "answered, their mean weight, in how many they led, and their mean loss there.",
        (
            *("Controller", "Repository", "Seed", "Predictor"),
            *("Answered", "Mean weight", "Led", "Mean loss"),
        ),
        rows,
        digits=3,
    )


def _turns(results: ControllerResults) -> Table:
    rows: list[list[Cell]] = []
    for row in _whole(results):
        where = (row["variant"], row["repository"], short_seed(row["seed"]))
        turns = row["trust"]["turns"]
        rows += [
            [*where, t["labels"], t["before"], t["after"], t["weight"], t["gain"]]
            for t in sorted(turns, key=lambda t: -t["gain"])[:3]
        ]
    return Table(
        "turns",
        "When and why trust moved: the three turns of most evidence in each audit. After so many "
        "labels another predictor took the lead, with its weight then, and how much less it had "
        "lost since the one before it was furthest ahead.",
        (
            *("Controller", "Repository", "Seed", "Labels"),
            *("Trusted before", "Trusted after", "Weight", "Gain"),
        ),
        rows,
        digits=3,
    )


def _naps(results: ControllerResults) -> Table:
    """Return who slept: the answers that states gave and were spared, and how often they woke."""
    live = [row for row in results.told if row["variant"] == LIVE]
    possible = [name for paths in list(GROUPS.values())[1:] for name in paths]
    states = [name for name in possible if name in live[0]["trust"]["standings"]]
    rows: list[list[Cell]] = []
    for row in live:
        standings, awake = row["trust"]["standings"], [set(names) for _, names in row["awake"]]
        chosen = [standings[name] for name in states]
        questions = max(standing["asked"] for standing in standings.values())
        answered = sum(standing["asked"] for standing in chosen)
        put = sum(len(earlier - later) for earlier, later in pairwise(awake))
        woken = sum(len(later - earlier) for earlier, later in pairwise(awake))
        spared = 1 - answered / (questions * len(chosen))
        where = (row["repository"], short_seed(row["seed"]))
        rows.append([*where, questions, answered, 100 * spared, put, woken, len(awake[-1])])
    return Table(
        "naps",
        f"What sleep spared: of {len(states)} states, the answers given, the share not computed "
        "in %, how often a state was put to sleep and woken, and how many were awake at the end.",
        (
            *("Repository", "Seed", "Questions", "Answers of states", "Spared"),
            *("Put to sleep", "Woken", "Awake at the end"),
        ),
        rows,
        digits=1,
    )


def _figure(results: ControllerResults) -> Figure:
    values = []
    for path in dict.fromkeys((_best(results), HEDGE, "P0M1", "P1M1", *_mixtures(results))):
        scores = results.scores(path)
        values.append(Value(path, float(scores.mean()), float(scores.min()), float(scores.max())))
    panel = Rows("Half-Brier loss on the audit", "half-Brier loss", values, digits=4)
    return Figure(
        "controller",
        "Half-Brier loss, mean of seeds; lines reach from the lowest seed to the highest. First is "
        "the best single predictor, known afterwards.",
        [panel],
    )


def _word(holds: bool) -> str:
    return "yes" if holds else "no"
