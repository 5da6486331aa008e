"""The report of a study of private conventions: who decides best, after how many labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from larc.reporting.charts import number
from larc.reporting.report import Report
from larc.reporting.tables import Cell, Table
from larc.runs.run import Run
from larc.studies.streams.figures import figures, labels_seen_table
from larc.studies.streams.names import CONTROLLER, KEEP, MODEL_FREE, RESET, SHAM
from larc.studies.streams.results import SetResults, contrast_of, load_results
from larc.studies.streams.ways import AGAIN, FROZEN

QUESTION = (
    "Many private streams, each with a convention of its own: does a private state inside the "
    "frozen model decide better than what one would use instead?"
)
NOTES = (
    "RESET reads the chosen start and learns nothing; KEEP keeps what every label of its stream "
    "taught; LATEST learns from the latest labels alone; SHAM keeps what permuted labels taught. "
    "G is the loss of RESET minus that of KEEP, D that of SHAM minus that of KEEP.",
    "Everything was chosen on validation streams, and is on record before a test stream was "
    "opened; no answer used a label that had not arrived when its question was asked.",
    "Streams weigh equally, and intervals are over streams: 99 %, Student's t of seed means, since "
    "a bootstrap of so few is too narrow. Differences are of half-Brier loss; positive is "
    "favourable to what comes second.",
    "RESET, KEEP, LATEST, SHAM and who builds on them have every training seed; other ways of a "
    "state and LORA have the first. Best without a language model is known afterwards alone: of "
    "the single paths, of WORDS standing on WORDS, and of their MIXTURE, the one that did best on "
    "these very questions. Labels of SHAM are drawn anew for each question, all candidates alike.",
    "Cross-entropy counts a probability below 1e-9 as 1e-9. Calibration is the expected "
    "calibration error of the most probable candidate, ten bins.",
)
#: What is asked about: a name, what should be worse, what should be better.
CONTRASTS = (
    ("G: RESET minus KEEP", RESET, KEEP),
    ("D: SHAM minus KEEP", SHAM, KEEP),
    ("LATEST minus KEEP", "LATEST", KEEP),
)


def report(run: Run) -> Report:
    """Return the report of a finished run."""
    results = load_results(run)
    synthetic = any(one.synthetic for one in results)
    first = int(run.settings["first"])
    title = "Private conventions" + (" (synthetic streams)" if synthetic else "")
    notes = list(NOTES)
    if synthetic:
        notes.insert(0, "The streams are made up: nothing can be learned from these scores.")
    tables = [
        _scores(results, first),
        _effects(results, first),
        _against(results, first, KEEP, "keep"),
        *(
            [_against(results, first, CONTROLLER, "controller")]
            if _has(results, CONTROLLER)
            else []
        ),
        _middle(results, first),
        labels_seen_table(results),
        _streams(results),
        *_costs(run),
        _choices(run),
        _data(run),
    ]
    answer = " ".join(map(answers, results))
    return Report(title, QUESTION, answer, tables, figures(results), notes)


def _has(results: Sequence[SetResults], path: str) -> bool:
    return all(path in one.paths for one in results)


def answers(one: SetResults) -> str:
    """Say in a sentence or two what was found on one data set."""
    gain = one.contrast(RESET, KEEP)
    where = "synthetic streams" if one.synthetic else one.name
    verb = "lowered" if gain.mean > 0 else "raised"
    difference = number(gain.mean, 4, signed=True)
    sentence = (
        f"On {where}, keeping what labels taught {verb} half-Brier loss from "
        f"{one.mean(RESET):.4f} to {one.mean(KEEP):.4f} (G {difference}, 99 % interval "
        f"{gain.interval})"
    )
    free = best_free(one)
    if free is None:
        return f"{sentence}."
    sentence += f"; the best without a language model, {free}, has {one.mean(free):.4f}"
    if CONTROLLER in one.paths:
        sentence += f" and the controller {one.mean(CONTROLLER):.4f}"
    return f"{sentence}."


def best_free(one: SetResults, first: int | None = None) -> str | None:
    """Return the path without a language model that did best on the test streams themselves."""
    free = [path for path in MODEL_FREE if path in one.whole()]
    return min(free, key=lambda path: one.mean(path, first=first)) if free else None


def _scores(results: Sequence[SetResults], first: int) -> Table:
    rows: list[list[Cell]] = []
    for one in results:
        halves = (FROZEN, AGAIN)
        for path, answered in one.paths.items():
            if path.split()[-1] in halves:
                continue
            table = answered.by_stream("half-Brier")
            by_seed = np.nanmean(table[np.isfinite(table).any(1)], axis=1)
            rows.append(
                [
                    one.name,
                    path,
                    int(np.isfinite(answered.top).any((0, 2)).sum()),
                    float(by_seed.mean()),
                    float(by_seed.std(ddof=1)) if len(by_seed) > 1 else None,
                    _cell(one.mean(path, "half-Brier", first)),
                    one.mean(path, "cross-entropy"),
                    _cell(one.mean(path, "cross-entropy", first)),
                    100 * one.mean(path, "accuracy"),
                    _cell(100 * one.mean(path, "accuracy", first)),
                    answered.calibration(),
                    _cell(answered.calibration(first)),
                ]
            )
    top = f"first {first}"
    columns = ("Half-Brier", "Seed SD", f"{top}", "Cross-entropy", f"{top} ", "Right %")
    return Table(
        "scores",
        "Everything that was compared, on the same questions of test streams: of each its first "
        f"{max(max(one.lengths) for one in results)} or all it has, and the first {first} by "
        "themselves. Lower is better but for what is right.",
        ("Data", "Path", "Streams", *columns, f"{top}  ", "Calibration", f"{top}   "),
        rows,
        digits=4,
    )


def _contrast_rows(
    one: SetResults, name: str, worse: str, better: str, first: int
) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for scope, count in (("all", None), (f"first {first}", first)):
        gain = one.contrast(worse, better, count)
        gaining = f"{gain.gaining} of {gain.streams}"
        rows.append([one.name, name, scope, _cell(gain.mean), gain.interval, gaining, *gain.seeds])
    return rows


def _contrast_table(
    results: Sequence[SetResults], name: str, caption: str, rows: list[list[Cell]]
) -> Table:
    seeds = [str(seed)[-4:] for seed in results[0].seeds]
    columns = ("Data", "Contrast", "Questions", "Mean", "99 % interval", "Streams that gain")
    return Table(name, caption, (*columns, *seeds), rows, digits=4)


def _effects(results: Sequence[SetResults], first: int) -> Table:
    rows = [
        row
        for one in results
        for name, worse, better in (*CONTRASTS, *_best_reset(one))
        for row in _contrast_rows(one, name, worse, better, first)
    ]
    return _contrast_table(
        results, "effects", "What keeping is worth, and what of it is owed to the labels.", rows
    )


def _best_reset(one: SetResults) -> list[tuple[str, str, str]]:
    """Return the contrast of KEEP with the start that reads best untouched, whichever that is."""
    resets = [path for path in one.whole() if path.split()[0] == RESET]
    best = min(resets, key=one.mean)
    return [] if best == RESET else [(f"{best} minus KEEP", best, KEEP)]


def _against(results: Sequence[SetResults], first: int, better: str, name: str) -> Table:
    rows: list[list[Cell]] = []
    for one in results:
        for path in one.paths:
            if path != better and path.split()[-1] not in (FROZEN, AGAIN):
                rows += _contrast_rows(one, f"{path} minus {better}", path, better, first)
    return _contrast_table(
        results,
        f"against-{name}",
        f"Everything else against {better}, on the same questions.",
        rows,
    )


def _middle(results: Sequence[SetResults], first: int) -> Table:
    rows: list[list[Cell]] = []
    for one in results:
        for path in one.paths:
            forks = [f"{path} {lane}" for lane in (FROZEN, AGAIN)]
            if forks[0] not in one.paths:
                continue
            for lane in (path, *forks):
                early, late = (_mean(one.second_half(lane, count)) for count in (first, None))
                gain = contrast_of(one.second_half(lane) - one.second_half(path))
                beside = ["–"] if lane == path else [f"{gain.mean:+.4f} {gain.interval}"]
                rows.append([one.name, lane, early, late, *beside])
    return Table(
        "middle",
        "Half-Brier loss in the second half of each stream: learning on, with what was learned in "
        "the first half frozen (FROZEN), and begun anew in the middle (AGAIN); by how much that is "
        "worse than learning on, with its interval.",
        ("Data", "Path", f"First {first} of the half", "Half", "Worse by"),
        rows,
        digits=4,
    )


def _cell(value: float) -> float | None:
    """Return a number, or none where nothing was scored."""
    return value if np.isfinite(value) else None


def _mean(values: NDArray[np.float64]) -> float | None:
    return float(np.nanmean(values)) if np.isfinite(values).any() else None


def _streams(results: Sequence[SetResults]) -> Table:
    rows: list[list[Cell]] = []
    for one in results:
        free = best_free(one)
        paths = [RESET, KEEP, free or "", CONTROLLER]
        scores = [
            one.paths[path].by_stream("half-Brier").mean(0) if path in one.paths else None
            for path in paths
        ]
        for position, stream in enumerate(one.streams):
            values = [None if score is None else float(score[position]) for score in scores]
            gain = None if values[0] is None or values[1] is None else values[0] - values[1]
            rows.append([one.name, stream, one.lengths[position], *values, gain])
    return Table(
        "streams",
        "Half-Brier loss by stream, seeds averaged: for whom keeping pays. The third is the best "
        "path without a language model over all streams.",
        ("Data", "Stream", "Questions", RESET, KEEP, "Without a model", CONTROLLER, "G"),
        rows,
        digits=4,
    )


def _costs(run: Run) -> list[Table]:
    units = [unit for unit in run.units() if unit.startswith("cost-")]
    rows: list[list[Cell]] = []
    for unit in sorted(units):
        for facts in run.unit_json(unit, "held.json"):
            asked = facts["questions"]
            counts = (facts["positions"] / asked, facts["updated"] / asked)
            time = 1000 * facts["seconds"] / asked
            rows.append([facts["data"], facts["path"], *counts, time, facts["bytes"]])
    if not rows:
        return []
    return [
        Table(
            "costs",
            "What a question costs, answered alone, nothing computed before: positions "
            "put through the model to answer and to learn, milliseconds on the machine of the day, "
            "and the bytes that a stream has to itself at the end. Who builds on others costs what "
            "they cost, and next to nothing more.",
            ("Data", "Path", "Positions read", "Positions learned", "ms", "Bytes a stream"),
            rows,
            digits=1,
        )
    ]


def _choices(run: Run) -> Table:
    rows: list[list[Cell]] = []
    for unit in sorted(u for u in run.units() if u.startswith("choice-")):
        choice = run.unit_json(unit, "choice.json")
        data = unit.removeprefix("choice-")
        for name, loss in sorted(choice["tried"].items(), key=lambda pair: pair[1]):
            rows.append([data, name, loss, "chosen" if name in choice["chosen"] else ""])
    return Table(
        "choices",
        "Half-Brier loss of everything that was tried on validation streams, with the first seed.",
        ("Data", "Tried", "Half-Brier", ""),
        rows,
        digits=4,
    )


def _data(run: Run) -> Table:
    recorded = run.recorded("data read")
    counted = (recorded or {"counts": {}})["counts"]
    lacking = any("unlabelled" in counts[part] for counts in counted.values() for part in counts)
    rows: list[list[Cell]] = []
    for data, counts in counted.items():
        for part in ("training", "validation", "test"):
            of = dict(counts[part])
            unlabelled = of.pop("unlabelled", 0)
            rows.append([data, part, *of.values(), *([unlabelled] if lacking else [])])
    more = (
        " Those without a label were asked, taught nothing, and are in no score." if lacking else ""
    )
    columns = ("Data", "Part", "Streams", "Questions", "Streams used", "Questions used")
    return Table(
        "data",
        "Whole streams by part: how many there are, and how many are used within the caps that "
        f"were declared.{more}",
        (*columns, *(["Without a label"] if lacking else [])),
        rows,
    )
