"""The report of a controller study of streams: losses, what parts are worth, the bound, trust."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from larc.evaluation import half_brier, nested_weights, weighted_mean
from larc.reporting.charts import Figure, Rows, Value
from larc.reporting.report import Report
from larc.reporting.seeds import seed_columns, seed_row, short_seed
from larc.reporting.tables import Cell, Table
from larc.runs.run import Run
from larc.studies.audited_run import REPLAY, replayed_settings
from larc.studies.controller.stream_units import groups_of
from larc.studies.controller.units import CONTROLLER, MIXED
from larc.studies.replay_tables import unit_rows

Array = NDArray[np.float64]
RESET = "RESET"
QUESTION = (
    "Can arriving labels decide which of a stream's states and experts to trust, so that the whole "
    "is no worse than the best of them, which is known only afterwards?"
)
NOTES = (
    "CONTROLLER mixes what the run answered, each stream by itself and from nothing, by losses on "
    "the labels that had arrived. What learned from permuted labels, what mixes others already, "
    "and what did not answer every question is left out.",
    "The bound is on the sum of losses over one stream, each question counted once.",
)


@dataclass(frozen=True, eq=False)
class SetWeighed:
    """One data set: half-Brier losses ``[seeds, questions]`` by path, and the questions' weights.

    Attributes
    ----------
    name, single, unlabelled
        The data set's name, the paths that were weighed, and how many questions have no label.
    loss, weights
        Streams weigh equally, groups within them, questions within those.
    told
        What the mixtures told of themselves, by seed, stream and variant.
    """

    name: str
    single: tuple[str, ...]
    unlabelled: int
    loss: Mapping[str, Array]
    weights: Array
    told: Sequence[Mapping[str, Any]]

    def scores(self, path: str) -> Array:
        """Return a path's loss by seed."""
        return weighted_mean(self.loss[path], self.weights)

    def mean(self, path: str) -> float:
        """Return a path's loss, seeds averaged."""
        return float(self.scores(path).mean())

    @property
    def best(self) -> str:
        """The best single path, known afterwards."""
        return min(self.single, key=self.mean)

    @property
    def whole(self) -> list[Mapping[str, Any]]:
        """What the controller of everything told."""
        return [row for row in self.told if row["variant"] == CONTROLLER]


def load_results(run: Run) -> list[SetWeighed]:
    """Read what a run saved, and score it."""
    seeds = tuple(replayed_settings(run)["seeds"])
    replayed = unit_rows(run, REPLAY, "predictions.parquet")
    mixed = unit_rows(run, MIXED, "predictions.parquet")
    told: list[dict[str, Any]] = run.unit_json(MIXED, "trust.json")
    results = []
    for name in dict.fromkeys(row["data"] for row in replayed):
        some = [row for row in (*replayed, *mixed) if row["data"] == name]
        asked = {(r["stream"], r["name"]): r for r in replayed if r["data"] == name}
        keys = sorted(key for key, row in asked.items() if row["label"] is not None)
        policies = {(r["seed"], r["path"], r["stream"], r["name"]): r["policy"] for r in some}
        labels = [asked[key]["label"] for key in keys]
        loss = {
            path: np.array(
                [
                    [
                        float(half_brier([policies[seed, path, *key]], [label])[0])
                        for key, label in zip(keys, labels, strict=True)
                    ]
                    for seed in seeds
                ]
            )
            for path in dict.fromkeys(row["path"] for row in some)
        }
        streams = [stream for stream, _ in keys]
        weights = nested_weights(streams, [asked[key]["group"] for key in keys], keys)
        single = tuple(dict.fromkeys(row["path"] for row in replayed if row["data"] == name))
        mine = [row for row in told if row["data"] == name]
        results.append(SetWeighed(name, single, len(asked) - len(keys), loss, weights, mine))
    return results


def report(run: Run) -> Report:
    """Return the report of a finished run."""
    results, facts = load_results(run), replayed_settings(run)
    synthetic = bool(facts["synthetic"])
    title = "The controller of streams" + (" (synthetic)" if synthetic else "")
    notes = list(NOTES)
    unlabelled = sum(one.unlabelled for one in results)
    if unlabelled:
        notes.append(f"{unlabelled} questions have no label: they are in no score.")
    if synthetic:
        notes.insert(0, "The questions are made up: nothing can be learned from these scores.")
    seeds = facts["seeds"]
    tables = [_losses(results, seeds), _ablation(results, seeds), _bounds(results), _trust(results)]
    answer = " ".join(map(answers, results))
    return Report(title, QUESTION, answer, tables, [_figure(results)], notes)


def answers(one: SetWeighed) -> str:
    """Say how the controller compares with the best that it mixes, on one data set."""
    within = all(max(row["regrets"].values()) <= row["bound"]["total"] for row in one.whole)
    start = f", the start without learning {one.mean(RESET):.4f}" if RESET in one.single else ""
    return (
        f"On {one.name}, half-Brier loss was {one.mean(CONTROLLER):.4f} with the controller; the "
        f"best of the {len(one.single)} it weighs, known afterwards, is {one.best} with "
        f"{one.mean(one.best):.4f}{start}. The largest regret was "
        f"{'within' if within else 'NOT WITHIN'} its bound in every stream."
    )


def _losses(results: Sequence[SetWeighed], seeds: Sequence[int]) -> Table:
    rows: list[list[Cell]] = []
    for one in results:
        rows += [seed_row(one.scores(path), one.name, path) for path in (*one.single, CONTROLLER)]
        least = weighted_mean(np.min([one.loss[path] for path in one.single], axis=0), one.weights)
        rows.append(seed_row(least, one.name, "best for each question, known afterwards"))
    return Table(
        "losses",
        "Half-Brier loss of everything that was weighed, and of the controller; streams weigh "
        "equally.",
        seed_columns(seeds, "Data", "Path"),
        rows,
        digits=4,
    )


def _ablation(results: Sequence[SetWeighed], seeds: Sequence[int]) -> Table:
    rows: list[list[Cell]] = []
    for one in results:
        best = one.scores(one.best)
        for variant in dict.fromkeys(row["variant"] for row in one.told):
            gain = seed_row(best - one.scores(variant), one.name, variant)
            rows.append([*gain, one.mean(variant)])
    members = {
        name: ", ".join(paths)
        for one in results[:1]
        for name, paths in groups_of(one.single).items()
    }
    grouped = "; ".join(f"{name}: {paths}" for name, paths in members.items())
    return Table(
        "ablation",
        "What each part is worth: by how much half-Brier loss is below that of the best single "
        "path, known afterwards, by seed, and the loss itself. Names with + add to those of the "
        f"row before; with all of them it is CONTROLLER. The groups are {grouped}.",
        (*seed_columns(seeds, "Data", "Variant"), "Loss"),
        rows,
        digits=4,
    )


def _bounds(results: Sequence[SetWeighed]) -> Table:
    rows: list[list[Cell]] = []
    for one in results:
        for row in one.whole:
            worst = max(row["regrets"], key=row["regrets"].get)
            regret, bound = row["regrets"][worst], row["bound"]["total"]
            within = "yes" if regret <= bound else "no"
            seed = short_seed(row["seed"])
            rows.append([one.name, row["stream"], seed, regret, worst, bound, within])
    return Table(
        "bounds",
        "The largest regret against any path, in total half-Brier loss over a stream, and the "
        "bound that the forecaster states for its realised delays.",
        ("Data", "Stream", "Seed", "Largest regret", "Against", "Bound", "Within"),
        rows,
        digits=3,
    )


def _trust(results: Sequence[SetWeighed]) -> Table:
    rows: list[list[Cell]] = []
    for one in results:
        standings = [row["trust"]["standings"] for row in one.whole]
        weight = {
            path: float(np.mean([told[path]["mean_weight"] for told in standings]))
            for path in one.single
        }
        for path in sorted(one.single, key=weight.__getitem__, reverse=True):
            led = sum(told[path]["led"] for told in standings)
            rows.append([one.name, path, weight[path], led, one.mean(path)])
    return Table(
        "trust",
        "Whom it trusted: the mean weight over streams and seeds, in how many questions each led, "
        "and its half-Brier loss.",
        ("Data", "Path", "Mean weight", "Led", "Half-Brier"),
        rows,
        digits=4,
    )


def _figure(results: Sequence[SetWeighed]) -> Figure:
    panels = []
    for one in results:
        shown = [path for path in (one.best, RESET, "KEEP", "CARRY") if path in one.single]
        values = []
        for path in dict.fromkeys((*shown, CONTROLLER, "plain mean")):
            by_seed = one.scores(path)
            ends = float(by_seed.min()), float(by_seed.max())
            values.append(Value(path, float(by_seed.mean()), *ends))
        panels.append(Rows(one.name, "half-Brier loss", values, digits=4))
    return Figure(
        "controller",
        "Half-Brier loss, mean of seeds; lines reach from the lowest seed to the highest. First is "
        "the best single path, known afterwards.",
        panels,
    )
