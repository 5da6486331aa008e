"""What runs in a replica: an ingress, which takes requests in, or a worker, which owns streams."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import torch

from larc.errors import LarcError
from larc.service.cluster.settings import ClusterSettings
from larc.service.engine import Engine
from larc.service.github.rest import RestWorker
from larc.service.github.routes import GitHubPart
from larc.service.github.worker import GitHubWorker
from larc.service.http.app import make_app
from larc.service.server import log_to_stderr
from larc.service.starts import load_models
from larc.service.store.database import Database, open_database
from larc.service.store.reading import waiting_events
from larc.service.templates import Models
from larc.state import SlowState
from larc.substrate.sharing import share_weights

#: How long a replica that starts waits for a database that is away.
_PATIENCE_S = 120.0


class Worker:
    """Owns streams: lets their events take effect, and looks after GitHub's part.

    No request comes here. What is to be done is in the log, whoever took it in.

    Parameters
    ----------
    settings
        The service.
    """

    def __init__(self, settings: ClusterSettings) -> None:
        self.engine = _engine(settings, owns=True)
        self.github = GitHubWorker(self.engine, settings.github)
        self.rest = RestWorker(self.github)
        self.engine.start()
        self.github.start()
        self.rest.start()

    def record_autoscaling_stats(self) -> dict[str, float]:
        """Tell Ray how many events wait for this worker."""
        try:
            with self.engine.database.reading() as connection:
                count = waiting_events(connection, self.engine.leases.current())
        except Exception:  # the database is away: no news
            count = 0
        return {"waiting": float(count)}

    def check_health(self) -> None:
        """Tell Ray whether this worker works; one that does not is replaced."""
        if not self.engine.healthy:
            raise LarcError("a thread of the worker has ended.")

    def __del__(self) -> None:
        """Finish what was begun and give the streams up, so that others take them at once."""
        if hasattr(self, "rest"):
            self.rest.stop()
            self.github.stop()
            self.engine.stop()


class Ingress:
    """Takes requests in; whoever owns a stream lets them take effect, and says when it has.

    Parameters
    ----------
    settings
        The service.
    workers
        Ray's handle of the workers: both are deployed together. Nothing is asked through it.
    """

    def __init__(self, settings: ClusterSettings, workers: Any = None) -> None:
        self.engine = _engine(settings, owns=False)
        github = GitHubPart(settings.github, GitHubWorker(self.engine, settings.github))
        self.application = make_app(self.engine, settings.http, github)
        self.engine.start()

    def __serve_build_asgi_app__(self) -> Any:
        """Return the application, which belongs to this replica's engine."""
        return self.application

    def check_health(self) -> None:
        """Tell Ray whether requests can be taken in; a database that is away is no illness."""
        if not self.engine.healthy:
            raise LarcError("a thread of the ingress has ended.")

    def __del__(self) -> None:
        """Answer whoever still waits, and end."""
        if hasattr(self, "application"):
            self.application.close()
            self.engine.stop()


def _engine(settings: ClusterSettings, *, owns: bool) -> Engine:
    log_to_stderr()
    if settings.threads:
        torch.set_num_threads(settings.threads)
    database = _opened(settings.database)
    return Engine(database, models_of(settings), replace(settings.engine, owns=owns))


def _opened(address: str) -> Database:
    """Open the database, waiting for one that is away: a replica may start at any time."""
    end = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return open_database(address)
        except LarcError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


def models_of(settings: ClusterSettings) -> Models:
    """Return a replica's models; their weights take memory once on each machine.

    Examples
    --------
    >>> models = models_of(ClusterSettings("postgresql://nowhere"))
    >>> [(one.model, one.state) for one in models.starts]
    [('tiny', 'untrained')]
    """
    states = [(name, SlowState.from_bytes(content, name)) for name, content in settings.states]
    models = load_models(settings.substrates, states, settings.rule)
    for substrate in {id(one.substrate): one.substrate for one in models.starts}.values():
        share_weights(substrate)
    return models
