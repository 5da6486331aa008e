"""``larc ci``: job histories, fetched and predicted without a model."""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from pathlib import Path

from larc.commands.common import Commands, command
from larc.errors import LarcError


def add(commands: Commands) -> None:
    """Declare the command."""
    ci = command(commands, "ci", "Fetch and predict continuous-integration jobs.", None)
    parts = ci.add_subparsers(title="parts", metavar="PART", required=True)
    base = command(parts, "baseline", "Predict jobs without a model: HEDGE4 alone.", _ci_baseline)
    base.add_argument("files", nargs="+", metavar="FILE", help="JSONL, Parquet or API answers")
    base.add_argument("--json", action="store_true", help="answer in JSON")
    base.add_argument(
        "--renamed",
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="count a repository under its later name",
    )
    get = command(parts, "fetch", "Fetch a repository's job history from GitHub.", _ci_fetch)
    get.add_argument("repository", metavar="OWNER/REPO")
    get.add_argument("--since", required=True, metavar="DATE")
    get.add_argument("--until", required=True, metavar="DATE")
    get.add_argument("--out", required=True, metavar="FILE")
    get.add_argument("--base-url", default="https://api.github.com", metavar="URL")


def _ci_baseline(arguments: argparse.Namespace) -> None:
    from larc.ci import baseline, read_jobs
    from larc.ci.experts import CHOICE

    renamed = dict(text.split("=", 1) for text in arguments.renamed if "=" in text)
    if len(renamed) < len(arguments.renamed):
        raise LarcError("--renamed takes OLD=NEW, two names of one repository.")
    jobs, accounting = read_jobs(arguments.files, renamed=renamed)
    report = baseline(jobs, accounting)
    if arguments.json:
        print(report.to_json(), end="")
        return
    rows = accounting.rows()
    reasons = accounting.left_out.items()
    left = ", ".join(f"{count} {reason}" for reason, count in reasons if count) or "none"
    print(f"{rows['read']} rows read, {rows['accepted']} accepted, left out: {left}")
    print(f"{'half-Brier loss':16}{'by commit':>12}{'by job':>12}")
    for name, losses in report.half_brier.items():
        shown = ["–" if losses[w] is None else f"{losses[w]:.4f}" for w in ("commit", "job")]
        print(f"{name:16}{shown[0]:>12}{shown[1]:>12}")
    print(f"\n{textwrap.fill(CHOICE, 80)}")


def _ci_fetch(arguments: argparse.Namespace) -> None:
    from larc.ci.fetching import FetchProgress, fetch_jobs

    def said(progress: FetchProgress) -> None:
        line = f"{progress.stage}: {progress.done} of {progress.total} {progress.note}"
        if sys.stderr.isatty():
            print(f"\r{line:78}", end="", file=sys.stderr, flush=True)

    report = fetch_jobs(
        arguments.repository,
        since=arguments.since,
        until=arguments.until,
        out=Path(arguments.out),
        base_url=arguments.base_url,
        token=os.environ.get("GITHUB_TOKEN") or os.environ.get("GH_TOKEN"),
        on_progress=said,
    )
    print(report)
