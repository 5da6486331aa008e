"""Sentences of the pages that hold numbers of several published runs."""

from __future__ import annotations

from functools import cache

from larc.domains.ci import EXPERTS
from larc.reporting.seeds import short_seed
from larc.runs.run import Run
from larc.studies.episodic.results import load_results
from website.published import RESULTS, Row, filled, one_row, published, rows, where


def headline(run: str, best: str, steps: str) -> str:
    """Say what published program studies found: the paper's settings, the best, and more steps."""
    fixed, tuned, more = (_kept(name) for name in (run, best, steps))
    settings, longer = (Run(RESULTS / name).settings for name in (best, steps))
    if not fixed["Real/keep"] > tuned["Real/keep"] > more["Real/keep"]:
        raise ValueError(f"{run}, {best} and {steps} found something else; say so in other words")
    return filled(
        "One of four programs is to be chosen, and feedback tells how often each was wrong on "
        f"{settings['support']} examples. On the frozen SmolLM2-135M, with a trained state "
        f"{where(settings['boundary'])}, {settings['inner_steps']} steps that descend on it take "
        f"the expected error on new inputs from **{tuned['Real/reset']:.2f} %** to "
        f"**{tuned['Real/keep']:.2f} %** (gain {_gained(best)}; {len(settings['seeds'])} training "
        f"seeds, {2 * settings['development_groups']} development groups of other parameters), and "
        f"{longer['inner_steps']} steps to **{more['Real/keep']:.2f} %** (gain {_gained(steps)}). "
        f"The paper's own settings come to {fixed['Real/keep']:.2f} % here. With the same feedback "
        f"dealt to programs at random, {settings['inner_steps']} steps leave "
        f"{tuned['Sham/keep']:.2f} %. A rule that simply takes the program with the fewest "
        f"observed errors reaches {tuned['Rule']:.2f} %, or {_even(best):.2f} % if it gives equals "
        f"the same chance, which is not told apart from {more['Real/keep']:.2f} %: this shows that "
        "feedback is learned, not that programs should be chosen this way."
    )


def _gained(run: str) -> str:
    gain = one_row(run, "contrasts", "Exact G")
    low, high = str(gain["99 % interval"]).strip("[]").split(", ")
    return f"{gain['Mean']:.2f} points, 99 % interval {low} to {high}"


def _kept(run: str) -> Row:
    """Return a program study's errors: of the exact objective if it has that, else the adapted."""
    return {str(row["Objective"]): row for row in rows(run, "controls")}[
        "Exact" if "exact" in Run(RESULTS / run).settings["objectives"] else "Adapted"
    ]


@cache
def _even(run: str) -> float:
    """Return the error of the rule that gives the programs of lowest support loss one chance."""
    results = load_results(Run(RESULTS / run))
    assert results.even is not None  # programs are tasks of one prompt
    return 100 * results.mean(results.even)


def rule(run: str) -> str:
    """Say what the rule does that needs no model, with ties taken either way."""
    first = _kept(run)["Rule"]
    return filled(
        "The rule that takes the program with the lowest support loss, the first of equals, makes "
        f"an expected error of {first:.2f} % on these groups. If it gives equals the same chance, "
        f"it makes {_even(run):.2f} %."
    )


def contrary(run: str, controlled: str) -> str:
    """Say what a published CI study found where keeping hurt, and what a controller made of it."""
    reset, keep, hedge = (
        one_row(run, "replay", path)["Mean"] for path in ("P0M1", "P1M1", "HEDGE4")
    )
    loss = {row["Predictor"]: row for row in rows(controlled, "losses")}
    live, seeds = loss["LIVE"], Run(RESULTS / run).settings["seeds"]
    best = min(loss[name]["Mean"] for name in EXPERTS)
    mixed = one_row(controlled, "ablation", "experts")["Loss"]
    every = all(live[short_seed(seed)] < hedge for seed in seeds)
    if not (keep > reset and every and best < live["Mean"] < mixed < hedge):
        raise ValueError(f"{run} and {controlled} found something else; say so in other words")
    queue = rows(run, "queue")
    commits = sum(int(row["Audit commits"]) for row in queue)
    return filled(
        "It does not always pay. On a queue of public CI jobs whose labels arrive late, keeping "
        f"what they taught raised half-Brier loss from {reset:.4f} to {keep:.4f} (HEDGE4, which "
        f"has no language model: {hedge:.4f}). `larc.Controller` goes by the arriving labels to "
        f"decide whom to trust, kept states, reset ones or experts: {live['Mean']:.4f}, better "
        f"than HEDGE4 with every seed. The same mixture of experts alone has {mixed:.4f}, and the "
        f"best expert, known only afterwards, {best:.4f}; these are {len(queue)} "
        f"repositories and {commits} commits."
    )


def answer(run: str) -> str:
    """Return the sentence that a run's report begins with."""
    return published(run).report.answer
