"""``larc ci``: job histories, fetched and predicted without a model."""

from __future__ import annotations

import argparse
import json
import os
import textwrap
from dataclasses import asdict
from pathlib import Path

from larc.cli import ci_live
from larc.cli.common import ONWARD, Commands, command
from larc.errors import LarcError


def add(commands: Commands) -> None:
    """Declare the command."""
    ci = command(commands, "ci", "Fetch and predict continuous-integration jobs.", None)
    parts = ci.add_subparsers(title="parts", metavar="PART", required=True)
    base = command(parts, "baseline", "Predict jobs without a model: HEDGE4 alone.", _ci_baseline)
    base.add_argument("files", nargs="+", metavar="FILE", help="JSONL, Parquet or API answers")
    base.add_argument("--json", action="store_true", help="answer in JSON, on one line")
    base.add_argument(
        "--renamed",
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="count a repository under its later name",
    )
    sentence = "Fetch a repository's job history from GitHub."
    get = command(parts, "fetch", sentence, _ci_fetch, stopped=ONWARD)
    get.add_argument("repository", metavar="OWNER/REPO")
    get.add_argument("--since", required=True, metavar="DATE")
    get.add_argument("--until", required=True, metavar="DATE")
    get.add_argument("--out", required=True, metavar="FILE")
    get.add_argument("--base-url", default="https://api.github.com", metavar="URL")
    get.add_argument("--json", action="store_true", help="answer in JSON")
    ci_live.add(parts)


def _ci_baseline(arguments: argparse.Namespace) -> None:
    from larc.domains.ci import baseline, read_jobs
    from larc.domains.ci.experts import CHOICE

    renamed = dict(text.split("=", 1) for text in arguments.renamed if "=" in text)
    if len(renamed) < len(arguments.renamed):
        raise LarcError("--renamed takes OLD=NEW, two names of one repository.")
    jobs, accounting = read_jobs(arguments.files, renamed=renamed)
    rows = accounting.rows()
    reasons = accounting.left_out.items()
    left = ", ".join(f"{count} {reason}" for reason, count in reasons if count) or "none"
    if not jobs:
        raise LarcError(
            f"{', '.join(arguments.files)} holds no job that could be predicted: {rows['read']} "
            f"rows read, left out: {left}."
        )
    report = baseline(jobs, accounting)
    if arguments.json:
        print(report.to_json())
        return
    print(f"{rows['read']} rows read, {rows['accepted']} accepted, left out: {left}")
    print(f"{'half-Brier loss':16}{'by commit':>12}{'by job':>12}")
    for name, losses in report.half_brier.items():
        shown = ["–" if losses[w] is None else f"{losses[w]:.4f}" for w in ("commit", "job")]
        print(f"{name:16}{shown[0]:>12}{shown[1]:>12}")
    print(f"\n{textwrap.fill(CHOICE, 80)}")


def _ci_fetch(arguments: argparse.Namespace) -> None:
    from larc.github.fetching import fetch_jobs
    from larc.progress import counting

    with counting() as tell:
        report = fetch_jobs(
            arguments.repository,
            since=arguments.since,
            until=arguments.until,
            out=Path(arguments.out),
            base_url=arguments.base_url,
            token=os.environ.get("GITHUB_TOKEN") or os.environ.get("GH_TOKEN"),
            on_progress=lambda now: tell(now.stage, now.done, now.total, now.note),
        )
    print(json.dumps({**asdict(report), "out": str(report.out)}) if arguments.json else report)
