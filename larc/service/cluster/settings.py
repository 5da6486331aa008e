"""What every replica of a service on a cluster is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from larc.errors import LarcError
from larc.service.engine import EngineSettings
from larc.service.github.settings import GitHubSettings
from larc.service.http.context import HttpSettings
from larc.service.starts import given_states


@dataclass(frozen=True)
class ClusterSettings:
    """A service, as its replicas are started.

    Attributes
    ----------
    database
        The address of the PostgreSQL that all of them share.
    substrates
        The frozen models, by what `larc.load_substrate` takes; each machine has to have them.
    states
        Slow states by their names, as the content of files.
    rule
        The update rule of streams whose template names none.
    threads
        Of the model in each worker; 0 for torch's choice.
    workers, most_workers
        The fewest and the most workers; between them their number follows what waits.
    ingresses
        The fewest replicas that take requests in.
    waiting
        How many events may wait for each worker before another one is started.
    upscale_s, downscale_s
        How long there must be too much, or too little, to do before workers are added or ended.
    cpus
        How many processors of Ray's a worker takes.
    """

    database: str
    substrates: Sequence[str] = ("tiny",)
    states: Sequence[tuple[str, bytes]] = ()
    rule: str = ""
    threads: int = 0
    workers: int = 2
    most_workers: int = 2
    ingresses: int = 2
    waiting: int = 64
    upscale_s: float = 10.0
    downscale_s: float = 300.0
    cpus: float = 1.0
    engine: EngineSettings = field(default_factory=EngineSettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    github: GitHubSettings = field(default_factory=GitHubSettings)

    def checked(self) -> ClusterSettings:
        """Return the settings, refusing those that no cluster can run.

        Examples
        --------
        >>> ClusterSettings("").checked()
        Traceback (most recent call last):
        ...
        larc.errors.LarcError: several machines share a PostgreSQL; give it with --database.
        """
        if not self.database.startswith(("postgresql://", "postgres://", "postgresql+psycopg://")):
            raise LarcError("several machines share a PostgreSQL; give it with --database.")
        if not 1 <= self.workers <= self.most_workers:
            raise LarcError("--workers is at least 1, and --most-workers no fewer.")
        if self.ingresses < 1 or self.waiting < 1:
            raise LarcError("--ingresses and --waiting are at least 1.")
        if not 0 < self.cpus < float("inf"):
            raise LarcError(f"--worker-cpus is {self.cpus}; give a finite number above 0.")
        return self


def read_states(texts: Sequence[str]) -> list[tuple[str, bytes]]:
    """Return slow states by their names, as what can be sent to another machine.

    Parameters
    ----------
    texts
        Files or packages, each ``PATH`` or ``NAME=PATH``.
    """
    return [(name, slow.to_bytes()) for name, slow in given_states(texts)]
