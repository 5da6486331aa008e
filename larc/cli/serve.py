"""``larc serve``: private learning states for other programs, over HTTP."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from larc.cli import retrain
from larc.cli.common import Commands, checked_threads, command, needs_service

if TYPE_CHECKING:
    from larc.service.server import ServerSettings

#: What only --engine ray hears, and its defaults.
_OF_A_CLUSTER: dict[str, float | None] = {
    "address": None,
    "workers": 2,
    "most_workers": None,
    "ingresses": 2,
    "waiting": 64,
    "worker_cpus": 1.0,
}
STOPPED = "what was acknowledged is kept; go on with"


def add(commands: Commands) -> None:
    """Declare the command."""
    sentence = "Serve learning states over HTTP: ask now, label later."
    serve = command(commands, "serve", sentence, _serve, stopped=STOPPED)
    option = serve.add_argument
    option("--data", default="larc-data", metavar="DIR", help="where it is kept [larc-data]")
    option("--database", default="", metavar="URL", help="a PostgreSQL to share [SQLite in DIR]")
    option("--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen [127.0.0.1]")
    option("--port", type=int, default=8722, metavar="N", help="0 for any that is free [8722]")
    option("--token-file", metavar="FILE", help="write the administrator's token there [print it]")
    option(
        "--substrate",
        action="append",
        metavar="TEXT",
        help="a frozen model; again for others that templates may name "
        "[smollm2-135m if fetched, else tiny]",
    )
    option(
        "--state",
        action="append",
        metavar="[NAME=]STATE",
        help="a slow state or a package, of any of these models; again for others [untrained]",
    )
    option("--rule", default="", metavar="TEXT", help="the update rule [the slow state's]")
    option("--threads", type=int, default=0, metavar="N", help="of the model [torch's choice]")
    option("--live", type=int, default=1000, metavar="N", help="streams in memory [1000]")
    option("--lease", type=float, default=5.0, metavar="S", help="until others take over [5]")
    option("--config", metavar="FILE", help="TOML with a section [github] [environment alone]")
    option("--rate", type=float, default=0.0, metavar="N", help="requests a second a token [any]")
    option("--engine", choices=["local", "ray"], default="local", help="this process, or Ray Serve")
    option("--address", metavar="TEXT", help="a Ray cluster, to go on there [one of its own]")
    option("--workers", type=int, default=2, metavar="N", help="the fewest that own streams [2]")
    option("--most-workers", type=int, metavar="N", help="when much waits [as few]")
    option("--ingresses", type=int, default=2, metavar="N", help="that take requests in [2]")
    option("--waiting", type=int, default=64, metavar="N", help="events for each worker [64]")
    option("--worker-cpus", type=float, default=1.0, metavar="N", help="of Ray's, a worker [1]")
    retrain.add(serve.add_subparsers(title="parts", metavar="[retrain]"))


def _serve(arguments: argparse.Namespace) -> None:
    from larc.errors import LarcError

    needs_service()
    from larc.rules import parse_rule
    from larc.service.engine import EngineSettings
    from larc.service.github.settings import github_settings
    from larc.service.http.context import HttpSettings
    from larc.service.server import ServerSettings, run
    from larc.substrate.fetching import is_fetched

    if arguments.live < 1 or arguments.lease < 0.5:
        raise LarcError("--live is at least 1 and --lease at least 0.5.")
    checked_threads(arguments.threads)
    if not 0 <= arguments.port < 2**16:
        raise LarcError("--port is 0 (for any that is free) to 65535.")
    if not 0 <= arguments.rate < float("inf"):
        raise LarcError(f"--rate is {arguments.rate}; give a finite number, 0 for any rate.")
    config = None if arguments.config is None else Path(arguments.config)
    github = github_settings(config, os.environ)
    if arguments.rule:
        parse_rule(arguments.rule)
    usual = "smollm2-135m" if is_fetched("smollm2-135m") else "tiny"
    substrates = arguments.substrate or [usual]
    file = arguments.token_file
    settings = ServerSettings(
        data=Path(arguments.data),
        database=arguments.database,
        host=arguments.host,
        port=arguments.port,
        token_file=None if file is None else Path(file),
        engine=EngineSettings(live=arguments.live, lease_s=arguments.lease),
        http=HttpSettings(rate=arguments.rate),
        github=github,
    )
    if arguments.engine == "ray":
        _on_ray(arguments, settings, substrates)
    else:
        for name, default in _OF_A_CLUSTER.items():
            if getattr(arguments, name) != default:
                option = "--" + name.replace("_", "-")
                raise LarcError(f"{option} is a Ray cluster's; give --engine ray with it.")
        import torch

        from larc.service.starts import given_states, load_models

        if arguments.threads:
            torch.set_num_threads(arguments.threads)
        states = given_states(arguments.state or [])
        run(settings, load_models(substrates, states, arguments.rule))


def _on_ray(
    arguments: argparse.Namespace, server: ServerSettings, substrates: Sequence[str]
) -> None:
    """Deploy the service on a cluster and leave it there, or on one that ends with this process."""
    from larc.service.cluster.deploying import deploy, until_stopped
    from larc.service.cluster.settings import ClusterSettings, read_states
    from larc.service.server import first_token
    from larc.service.store.database import open_database

    settings = ClusterSettings(
        database=server.database,
        substrates=tuple(substrates),
        states=tuple(read_states(arguments.state or [])),
        rule=arguments.rule,
        threads=arguments.threads,
        workers=arguments.workers,
        most_workers=arguments.most_workers or arguments.workers,
        ingresses=arguments.ingresses,
        waiting=arguments.waiting,
        cpus=arguments.worker_cpus,
        engine=server.engine,
        http=server.http,
        github=server.github,
    ).checked()
    database = open_database(settings.database)
    first_token(database, server.token_file)
    database.close()
    told = deploy(settings, arguments.address or "", server.host, server.port)
    print(f"listening on {told}", flush=True)
    if not arguments.address:
        until_stopped()
