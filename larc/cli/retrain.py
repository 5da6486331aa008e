"""``larc serve retrain``: a new slow state from a service's own logs, offered and not imposed."""

from __future__ import annotations

import argparse
import json
import math
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from larc.cli.common import ANEW, Commands, checked_threads, command, needs_service
from larc.errors import LarcError

if TYPE_CHECKING:
    from larc.service.cluster.settings import ClusterSettings
    from larc.service.retraining import RetrainSettings


def add(parts: Commands) -> None:
    """Declare the command."""
    sentence = "Train a slow state on a service's logs until a time, judge it after, offer it."
    again = command(parts, "retrain", sentence, _retrain, stopped=ANEW)
    option = again.add_argument
    option("--name", required=True, metavar="NAME", help="what it is offered as")
    option("--until", required=True, metavar="TIME", help="seconds since 1970, or ISO 8601")
    option("--streams", action="append", metavar="GLOB", help="whose logs; again for others [all]")
    # What `larc serve` has, too, may also come before the word, and has its defaults from there.
    same = partial(option, default=argparse.SUPPRESS)
    same("--data", metavar="DIR", help="of the service [larc-data]")
    same("--database", metavar="URL", help="of the service [SQLite in DIR]")
    same("--substrate", action="append", metavar="TEXT", help="as the service was started")
    same("--state", action="append", metavar="[NAME=]STATE", help="as the service was started")
    same("--rule", metavar="TEXT", help="as the service was started")
    same("--threads", type=int, metavar="N", help="of the model [torch's choice]")
    same("--engine", choices=["local", "ray"], help="here, or a job of Ray's [local]")
    same("--address", metavar="TEXT", help="a Ray cluster [one of its own]")
    option("--of", default="", metavar="MODEL/STATE", help="the running one [the service's first]")
    option("--updates", type=int, default=64, metavar="N", help="of the slow state [64]")
    option("--window", type=int, default=32, metavar="N", help="questions a window [32]")
    option("--batch", type=int, default=2, metavar="N", help="windows an update [2]")
    option("--learning-rate", type=float, default=1e-3, metavar="X", help="[0.001]")
    option("--seed", type=int, default=1, metavar="N", help="[1]")
    option("--json", action="store_true", help="answer in JSON, on one line")


def moment(text: str) -> float:
    """Return the seconds since 1970 of a time.

    Examples
    --------
    >>> moment("12.5"), moment("1970-01-01T00:01:00Z")
    (12.5, 60.0)
    """
    wrong = f"--until {text}: give seconds since 1970, or a time such as 2026-05-01T12:00:00Z."
    try:
        seconds = float(text)
    except ValueError:
        pass
    else:
        if not math.isfinite(seconds):
            raise LarcError(wrong)
        return seconds
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError as error:
        raise LarcError(wrong) from error
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


def _retrain(arguments: argparse.Namespace) -> None:
    needs_service()
    from larc.service.cluster.settings import ClusterSettings, read_states
    from larc.service.retraining import RetrainSettings
    from larc.substrate.fetching import is_fetched

    ray = arguments.engine == "ray"
    if arguments.address is not None and not ray:
        raise LarcError("--address is a Ray cluster's; give --engine ray with it.")
    checked_threads(arguments.threads)
    until = moment(arguments.until)
    file = Path(arguments.data) / "larc.db"
    if not arguments.database and (ray or not file.exists()):
        told = "a job on a cluster" if ray else f"there is no {file}; a shared service"
        raise LarcError(f"{told} needs the service's PostgreSQL; give it with --database.")
    model, _, state = arguments.of.partition("/")
    usual = "smollm2-135m" if is_fetched("smollm2-135m") else "tiny"
    service = ClusterSettings(
        database=arguments.database or f"sqlite:///{file}",
        substrates=tuple(arguments.substrate or [usual]),
        states=tuple(read_states(arguments.state or [])),
        rule=arguments.rule,
        threads=arguments.threads,
    )
    wish = RetrainSettings(
        name=arguments.name,
        until=until,
        streams=tuple(arguments.streams or ["*"]),
        model=model,
        state=state,
        updates=arguments.updates,
        window=arguments.window,
        batch=arguments.batch,
        learning_rate=arguments.learning_rate,
        seed=arguments.seed,
    )
    result = _result(service, wish, arguments)
    print(json.dumps(result, sort_keys=True) if arguments.json else _shown(result))


def _result(
    service: ClusterSettings, wish: RetrainSettings, arguments: argparse.Namespace
) -> dict[str, Any]:
    """Run the job: in this process, or on a cluster."""
    from larc.progress import counting
    from larc.service.cluster.jobs import retrain_here, retrain_on_ray

    if arguments.engine == "ray":
        return retrain_on_ray(service, wish, arguments.address or "")
    with counting() as tell:
        return retrain_here(service, wish, lambda done: tell("training", done, wish.updates, ""))


def _shown(result: dict[str, Any]) -> str:
    lines = [
        f"{result['name']} ({result['digest'][:12]}) is offered: trained on {result['trained_on']} "
        f"labels of {result['streams']} streams, judged on {result['labels']} later ones",
    ]
    if result["labels"]:
        lines.append(f"{'mean loss':12}{'running':>10}{'new':>10}   gain, 95 % interval")
    for name, gain in result["gains"].items():
        running, new = result["running"][name], result["new"][name]
        lines.append(
            f"{name:12}{running:10.4f}{new:10.4f}   {gain['estimate']:+.4f} "
            f"({gain['lower']:+.4f} to {gain['upper']:+.4f})"
        )
    return "\n".join(lines)
