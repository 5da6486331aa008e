"""Work beside the service, in this process or as a task of its cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from larc.errors import LarcError
from larc.service.cluster.connecting import connect
from larc.service.cluster.replicas import models_of
from larc.service.cluster.settings import ClusterSettings
from larc.service.retraining import RetrainSettings, retrain
from larc.service.store.database import open_database


def retrain_here(
    service: ClusterSettings, wish: RetrainSettings, done: Callable[[int], None] | None = None
) -> dict[str, Any]:
    """Train a slow state on a service's logs in this process.

    Parameters
    ----------
    service
        The database and the models; nothing else of it is used.
    wish
        How.
    done
        Told the number of each update.
    """
    if service.threads:
        torch.set_num_threads(service.threads)
    database = open_database(service.database)
    try:
        return retrain(models_of(service), database, wish, done)
    finally:
        database.close()


def retrain_on_ray(service: ClusterSettings, wish: RetrainSettings, address: str) -> dict[str, Any]:
    """Do the same as a task of a cluster; it is not begun again by itself."""
    ray = connect(address)
    try:
        task = ray.remote(num_cpus=max(1, service.threads), max_retries=0)(retrain_here)
        try:
            result: dict[str, Any] = ray.get(task.remote(service, wish))
        except ray.exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, LarcError):
                raise LarcError(str(cause)) from error
            raise
        return result
    finally:
        ray.shutdown()
