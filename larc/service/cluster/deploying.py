"""The service's deployments on Ray Serve, and how they come to a cluster.

Three of Ray's interfaces used here are alpha in 2.60, which is why the extra ``ray`` names that
version: custom metrics of replicas, policies of one's own for autoscaling, and applications that a
replica builds itself.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from larc.errors import LarcError, reason
from larc.service.cluster.connecting import connect
from larc.service.cluster.replicas import Ingress, Worker
from larc.service.cluster.scaling import scaled
from larc.service.cluster.settings import ClusterSettings, read_states
from larc.service.server import first_token
from larc.service.store.database import open_database

NAME = "larc"
#: How long a replica may take to finish what it has begun, before it is ended.
_DRAIN_S = 30.0
#: The most requests that one ingress has under way: they wait, they do not compute.
_UNDER_WAY = 1000


def application(settings: ClusterSettings) -> Any:
    """Return the service as an application of Ray Serve, to be deployed."""
    from ray import serve
    from ray.serve.config import AutoscalingConfig, AutoscalingPolicy

    chosen = settings.checked()
    policy: Any = AutoscalingPolicy
    workers: Any = serve.deployment(
        Worker,
        name="Worker",
        autoscaling_config=AutoscalingConfig(
            min_replicas=chosen.workers,
            max_replicas=chosen.most_workers,
            target_ongoing_requests=chosen.waiting,
            upscale_delay_s=chosen.upscale_s,
            downscale_delay_s=chosen.downscale_s,
            policy=policy(policy_function=scaled),
        ),
        ray_actor_options={"num_cpus": chosen.cpus},
        graceful_shutdown_timeout_s=_DRAIN_S,
        health_check_period_s=5.0,
    )
    ingress: Any = serve.deployment(
        serve.ingress()(Ingress),
        name="Ingress",
        max_ongoing_requests=_UNDER_WAY,
        max_queued_requests=2 * _UNDER_WAY,
        autoscaling_config=AutoscalingConfig(
            min_replicas=chosen.ingresses,
            max_replicas=max(chosen.ingresses, chosen.most_workers),
            target_ongoing_requests=_UNDER_WAY / 4,
            upscale_delay_s=chosen.upscale_s,
            downscale_delay_s=chosen.downscale_s,
        ),
        ray_actor_options={"num_cpus": chosen.cpus / 4},
        graceful_shutdown_timeout_s=_DRAIN_S,
        health_check_period_s=5.0,
    )
    return ingress.bind(chosen, workers.bind(chosen))


def build(arguments: dict[str, Any]) -> Any:
    """Return the application as a file of Ray Serve's names it, for KubeRay.

    The database's address is in the environment variable ``LARC_DATABASE``; an administrator's
    token is in the file that ``LARC_TOKEN_FILE`` names.

    Parameters
    ----------
    arguments
        Fields of `ClusterSettings`.
    """
    settings = given_settings(arguments, os.environ)
    file = os.environ.get("LARC_TOKEN_FILE")
    if not file or not Path(file).is_file():
        raise LarcError("LARC_TOKEN_FILE names no file with an administrator's token.")
    database = open_database(settings.database)
    first_token(database, Path(file))
    database.close()
    return application(settings)


def given_settings(arguments: Mapping[str, Any], environment: Mapping[str, str]) -> ClusterSettings:
    """Return the settings of a file of Ray Serve's.

    Examples
    --------
    >>> about = {"LARC_DATABASE": "postgresql://db/larc"}
    >>> given_settings({"workers": 2, "most_workers": 4}, about).most_workers
    4
    >>> given_settings({"wokers": 2}, about)
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: the service has no setting 'wokers'; it has ...
    """
    simple = [one.name for one in fields(ClusterSettings) if one.name not in _OF_PARTS]
    for name in arguments:
        if name not in simple:
            raise LarcError(f"the service has no setting {name!r}; it has {', '.join(simple)}.")
    given = dict(arguments)
    if "states" in given:
        given["states"] = tuple(read_states(given["states"]))
    return ClusterSettings(**{"database": environment.get("LARC_DATABASE", ""), **given}).checked()


#: Settings of the parts, which a file does not give.
_OF_PARTS = ("engine", "http", "github")


def deploy(settings: ClusterSettings, address: str, host: str, port: int) -> str:
    """Bring the service to a cluster, or another version of it in place of the one that runs.

    Replicas of the version before finish what they have begun, one after the other.

    Parameters
    ----------
    settings
        The service.
    address
        The cluster's, as ``ray.init`` takes it; empty for one on this machine, which ends with
        this process.
    host, port
        Where the proxies listen, one on each machine that has a replica; port 0 for any that is
        free here.

    Returns
    -------
    str
        The address of the proxies, as it is on each of their machines.
    """
    settings.checked()
    connect(address)
    from ray import serve

    chosen = _proxies(serve) or (host, port or _free_port(host))
    http = {"host": chosen[0], "port": chosen[1], "keep_alive_timeout_s": 30}
    serve.start(proxy_location="EveryNode", http_options=http, logging_config=_QUIET)
    try:
        serve.run(application(settings), name=NAME, logging_config=_QUIET)
    except RuntimeError as error:
        raise LarcError(f"the service did not start on the cluster ({reason(error)}).") from error
    return f"http://{chosen[0]}:{chosen[1]}"


#: Ray's own log: no line for each request, which names its path.
_QUIET = {"enable_access_log": False, "log_level": "WARNING"}


def until_stopped() -> None:
    """Wait for SIGTERM or SIGINT, then end the service and the cluster that is this process's."""
    import ray
    import ray.serve

    serve: Any = ray.serve
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    stopping.wait()
    serve.delete(NAME)
    serve.shutdown()
    ray.shutdown()


def _proxies(serve: Any) -> tuple[str, int] | None:
    """Return where the proxies of a cluster listen that has some: this is decided once."""
    from ray.serve.context import _get_global_client

    client = _get_global_client(raise_if_no_controller_running=False)
    if client is None:  # Serve has not been started there
        return None
    return str(client.http_config.host), int(client.http_config.port)


def _free_port(host: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as free:
        free.bind((host, 0))
        return int(free.getsockname()[1])
