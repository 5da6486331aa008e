"""The report of a continuous-integration run: its tables, its figures and its answer."""

from __future__ import annotations

import numpy as np

from larc.domains.ci.experts import CHOICE, EXPERTS
from larc.domains.ci.jobs import LABELS
from larc.evaluation import expected_calibration_error, nested_weights, reliability, weighted_mean
from larc.reporting.report import Report
from larc.reporting.seeds import seed_columns, seed_row
from larc.reporting.tables import Cell, Table
from larc.runs.run import Run
from larc.studies.ci.figures import figures
from larc.studies.ci.results import (
    SHOWN,
    CIResults,
    commit_gains,
    contrasts,
    load_results,
    path_bins,
)
from larc.studies.replay_tables import updates_table

QUESTION = (
    "Does keeping what late labels taught predict the next jobs better than going back to the "
    "trained start, and better than HEDGE4, which has no model?"
)
PATH_NOTES = (
    "P1 keeps the factors that arrived labels have changed, P0 reads the trained start; M1 shows "
    "earlier cases in the prompt, M0 none. PERM_M1 learns from permuted labels and sees the real "
    "cases. ORIGINAL starts from before the training on this task, CALIBRATED adds four label "
    "biases fitted on history to it; both learned from the training labels first, as HEDGE4 did.",
    "Within a repository no prediction used a label that had not arrived when its job started. "
    "Training pools the repositories, whose windows may lie years apart: this looks back on each "
    "repository by its own clock, and is no deployment along one calendar.",
)


def report(run: Run) -> Report:
    """Return the report of a finished run."""
    results = load_results(run)
    title = "The continuous-integration study" + (" (synthetic jobs)" if results.synthetic else "")
    return Report(
        title, QUESTION, answer(results), tables(results, run), figures(results), notes(results)
    )


def notes(results: CIResults) -> list[str]:
    """Return what a reader has to know: the verdict, the paths, and what the scores are not."""
    if results.synthetic:
        whose = "The jobs are made up: nothing can be learned from these scores."
    else:
        whose = "This is not the queue of the paper, which is not public: no score here is its."
    return [success(results), *PATH_NOTES, whose, CHOICE]


def success(results: CIResults) -> str:
    """Say whether the full path beats HEDGE4 by the rule that was fixed beforehand."""
    verdict = results.verdict
    return (
        "The rule for success is that HEDGE4 minus P1M1 averages at least 0.01 and is positive for "
        f"every seed. It is {'met' if verdict.success else 'not met'}: {verdict.reason}"
    )


def tables(results: CIResults, run: Run) -> list[Table]:
    """Return the study's tables."""
    return [
        _queue(results, run),
        _replay(results),
        _effects(results),
        _over_commits(results),
        _strata(results),
        _weightings(results),
        _calibration(results),
        _reliability(results),
        updates_table(run),
    ]


def _queue(results: CIResults, run: Run) -> Table:
    read = run.evidence()[:1]
    counts = read[0].get("counts") if read else None
    trained = counts["repositories"] if counts else {}
    rows: list[list[Cell]] = []
    for repository in sorted(set(results.repositories) | set(trained)):
        inside = np.array(results.repositories) == repository
        commits = {c for c, chosen in zip(results.commits, inside, strict=True) if chosen}
        labels = np.bincount(results.labels[inside], minlength=len(LABELS)).tolist()
        before = trained.get(repository, {}).get("training", {})
        training = [before.get("jobs"), before.get("commits")]
        rows.append([repository, *training, int(inside.sum()), len(commits), *labels])
    caption = "The jobs that were trained on, and those that were predicted, by their labels."
    if counts and counts["shared"]["jobs"]:
        shared = counts["shared"]
        caption += (
            f" {shared['jobs']} jobs of {shared['commits']} commits that were in both windows are "
            "in neither."
        )
    if counts and "late" in counts:
        caption += (
            f" {counts['late']['jobs']} jobs of the training windows that ended after their "
            "repository's audit had begun are left out."
        )
    columns = ("Repository", "Training jobs", "Training commits", "Audit jobs", "Audit commits")
    names = [label.capitalize() for label in LABELS]
    return Table("queue", caption, (*columns, *names), rows)


def _replay(results: CIResults) -> Table:
    queue = "a synthetic queue" if results.synthetic else "the audit queue"
    commits = len(set(zip(results.repositories, results.commits, strict=True)))
    rows = [seed_row(results.scores(path), path) for path in (*results.paths, *EXPERTS)]
    return Table(
        "replay",
        f"Half-Brier loss on {queue}, {len(results.names)} jobs of {commits} commits; "
        f"repositories, commits and jobs weigh equally. The last rows are HEDGE4's experts. "
        f"{CHOICE}",
        seed_columns(results.seeds, "Path"),
        rows,
        digits=4,
    )


def _effects(results: CIResults) -> Table:
    return Table(
        "effects",
        "Differences of half-Brier loss by seed; positive is favourable to what comes second. "
        f"{success(results)}",
        seed_columns(results.seeds, "Contrast"),
        [seed_row(by_seed, name) for name, by_seed in contrasts(results.path_scores).values()],
        digits=4,
    )


def _over_commits(results: CIResults) -> Table:
    rows: list[list[Cell]] = []
    for name, gain in commit_gains(results):
        lower, upper = float(gain.lower[0]), float(gain.upper[0])
        told = f"[{lower:+.4f}, {upper:+.4f}]" if gain.known else "none: too few commits"
        rows.append([name, float(gain.estimate[0]), told.replace("-", "−")])
    return Table(
        "commits",
        "Differences of half-Brier loss, seeds averaged, with intervals over commits: whole "
        "commits drawn with replacement within their repository. Positive is favourable to what "
        "comes second.",
        ("Contrast", "Mean", "99 % interval"),
        rows,
        digits=4,
    )


def _strata(results: CIResults) -> Table:
    rows: list[list[Cell]] = []
    repositories = np.array(results.repositories)
    for repository in sorted(set(results.repositories)):
        inside = repositories == repository
        for name in ("All", *(label.capitalize() for label in LABELS)):
            chosen = inside
            if name != "All":
                chosen = inside & (results.labels == LABELS.index(name.lower()))
            count = int(chosen.sum())
            if not count:
                continue
            commits = [c for c, keep in zip(results.commits, chosen, strict=True) if keep]
            names = [n for n, keep in zip(results.names, chosen, strict=True) if keep]
            weights = nested_weights(commits, names) if name == "All" else np.full(count, 1 / count)
            scores = [
                float(weighted_mean(results.loss[path][:, chosen], weights).mean())
                for path in SHOWN.values()
            ]
            rows.append([repository, name, count, len(set(commits)), *scores])
    return Table(
        "strata",
        "Half-Brier loss by repository and observed label, seeds averaged. Rows of all labels "
        "weigh commits equally, the others jobs.",
        ("Repository", "Label", "Jobs", "Commits", *SHOWN),
        rows,
        digits=4,
    )


def _weightings(results: CIResults) -> Table:
    pairs = list(zip(results.repositories, results.commits, strict=True))
    ways = {
        "Repository then commit (primary)": results.primary,
        "Commit": results.weights(pairs),
        "Job": np.full(len(results.names), 1 / len(results.names)),
    }
    return Table(
        "weightings",
        "The same predictions under three weightings, seeds averaged.",
        ("Aggregation", *SHOWN),
        [
            [name, *(float(weighted_mean(results.loss[path], w).mean()) for path in SHOWN.values())]
            for name, w in ways.items()
        ],
        digits=4,
    )


def _calibration(results: CIResults) -> Table:
    rows = []
    for path in results.paths:
        errors = [
            expected_calibration_error(reliability(policy, results.labels, weights=results.primary))
            for policy in results.policy[path]
        ]
        rows.append(seed_row(np.array(errors), path))
    return Table(
        "calibration",
        "Expected calibration error of the most probable label, ten bins, primary weights.",
        seed_columns(results.seeds, "Path"),
        rows,
        digits=4,
    )


def _reliability(results: CIResults) -> Table:
    rows: list[list[Cell]] = []
    for path, bins in path_bins(results).items():
        for index in np.flatnonzero(bins.count):
            low, high = bins.edges[index : index + 2]
            values = (bins.weight[index], bins.predicted[index], bins.observed[index])
            name = f"{low:.1f} to {high:.1f}"
            rows.append([path, name, int(bins.count[index]), *map(float, values)])
    return Table(
        "reliability",
        "The most probable label, by its probability: how many predictions of all seeds, their "
        "share of the weight, their mean probability, and how often they were right.",
        ("Path", "Probability", "Predictions", "Weight", "Predicted", "Observed"),
        rows,
        digits=4,
    )


def answer(results: CIResults) -> str:
    """Say in one sentence whether keeping what late labels taught helped."""
    reset, keep, hedge = (float(results.scores(p).mean()) for p in ("P0M1", "P1M1", "HEDGE4"))
    verb = "lowered" if keep < reset else "raised"
    queue = "a synthetic queue" if results.synthetic else "this queue"
    return (
        f"On {queue}, keeping online updates {verb} half-Brier loss from {reset:.4f} (reset) to "
        f"{keep:.4f}; HEDGE4, without a model, has {hedge:.4f}."
    )
