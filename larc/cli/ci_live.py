"""``larc ci backfill``, ``replay-webhooks`` and ``live``: histories for a server that runs."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from larc.cli.common import Commands, command
from larc.errors import LarcError, reason

if TYPE_CHECKING:
    from larc.domains.ci.jobs import Job

AGAIN = "what was sent is kept; the same command sends the rest"
ENDED = "the server has ended; see it again with"
SECRET = "LARC_GITHUB_WEBHOOK_SECRET"
#: How many jobs the made-up history of `larc ci live` has.
MADE_UP = 1200


def add(parts: Commands) -> None:
    """Declare the commands."""
    tell = command(
        parts, "backfill", "Tell a running server a history, before it is asked.", _backfill
    )
    tell.set_defaults(stopped=AGAIN)
    _files(tell)
    _server(tell)
    tell.add_argument("--token-file", required=True, metavar="FILE", help="an administrator's")
    play = command(
        parts, "replay-webhooks", "Send a history to a running server as signed webhooks.", _replay
    )
    play.set_defaults(stopped=AGAIN)
    _files(play)
    _server(play)
    play.add_argument("--hook", default="default", metavar="NAME", help="in the address [default]")
    play.add_argument("--secret-file", metavar="FILE", help=f"the hook's secret [{SECRET}]")
    play.add_argument(
        "--speed", type=float, default=0.0, metavar="N", help="times as fast as it was [at once]"
    )
    play.add_argument("--now", action="store_true", help="move its times so that it happens now")
    show = command(parts, "live", "A server, and a history that happens in it now.", _live)
    show.set_defaults(stopped=ENDED)
    show.add_argument("files", nargs="*", metavar="FILE", help="JSONL or Parquet [made-up jobs]")
    show.add_argument("--data", default="larc-live", metavar="DIR", help="[larc-live]")
    show.add_argument("--port", type=int, default=8722, metavar="N", help="[8722]")
    show.add_argument("--speed", type=float, default=60.0, metavar="N", help="[60]")
    show.add_argument("--substrate", default="tiny", metavar="TEXT", help="[tiny]")


def _files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="JSONL, Parquet or API answers")


def _server(parser: argparse.ArgumentParser) -> None:
    to = "http://127.0.0.1:8722"
    parser.add_argument("--to", default=to, metavar="URL", help=f"the server [{to}]")


def _jobs(files: list[str]) -> list[Job]:
    from larc.domains.ci import read_jobs

    jobs, accounting = read_jobs(files)
    left = ", ".join(f"{n} {why}" for why, n in accounting.left_out.items() if n) or "none"
    if not jobs:
        raise LarcError(f"{', '.join(files)} holds no job that has ended; left out: {left}.")
    print(f"{len(jobs)} jobs, left out: {left}")
    return jobs


def _word(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise LarcError(f"{file} cannot be read ({reason(error)}).") from None


def _backfill(arguments: argparse.Namespace) -> None:
    from larc.progress import counting
    from larc.service.github.replay import backfill

    token = _word(arguments.token_file)
    jobs = _jobs(arguments.files)
    with counting() as tell:
        told = backfill(
            arguments.to.rstrip("/"),
            token,
            jobs,
            say=lambda done, total: tell("parts", done, total, ""),
        )
    for name, count in told.items():
        print(f"{name}: {count} jobs are known")


def _replay(arguments: argparse.Namespace) -> None:
    from larc.progress import counting
    from larc.service.github.replay import replay_webhooks

    secret = _word(arguments.secret_file) if arguments.secret_file else os.environ.get(SECRET, "")
    if not secret:
        raise LarcError(f"the hook's secret is missing; put it into {SECRET} or a --secret-file.")
    if not 0 <= arguments.speed <= 1e9:
        raise LarcError("--speed is a number from 0, for at once, to a billion.")
    jobs = _jobs(arguments.files)
    with counting() as tell:
        played = replay_webhooks(
            arguments.to.rstrip("/"),
            secret,
            jobs,
            hook=arguments.hook,
            speed=arguments.speed,
            live=arguments.now,
            say=lambda done, total: tell("deliveries", done, total, ""),
        )
    print(f"{played.deliveries} deliveries of {played.jobs} jobs, {played.duplicates} sent before")


def _live(arguments: argparse.Namespace) -> None:
    from larc.domains.ci.synthetic import eventful_jobs

    if not 0 < arguments.speed <= 1e9 or not 0 <= arguments.port < 2**16:
        raise LarcError("--speed is above 0, and --port 0 to 65535.")
    jobs = _jobs(arguments.files) if arguments.files else eventful_jobs(MADE_UP, seed=25)
    try:
        from larc.service.github.live import live
    except ImportError as error:
        raise LarcError(
            f"the service needs {error.name}; install it with `pip install 'larc-lm[serve]'`."
        ) from error
    live(
        jobs,
        data=Path(arguments.data),
        port=arguments.port,
        speed=arguments.speed,
        substrate=arguments.substrate,
    )
