"""A server in this process: a database, a model, an engine and HTTP."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn

from larc.errors import LarcError, reason
from larc.io.files import make_directory
from larc.io.locks import locked
from larc.service.auth import SCOPES, new_token
from larc.service.engine import Engine, EngineSettings
from larc.service.github.rest import RestWorker
from larc.service.github.routes import GitHubPart
from larc.service.github.settings import GitHubSettings
from larc.service.github.worker import GitHubWorker
from larc.service.http.app import make_app
from larc.service.http.connections import limited
from larc.service.http.context import HttpSettings
from larc.service.store.admin import keep_token, list_tokens
from larc.service.store.database import Database, open_database
from larc.service.templates import Models


@dataclass(frozen=True)
class ServerSettings:
    """Where a server keeps its data and listens.

    Attributes
    ----------
    data
        The directory of the database, where none is given by address.
    database
        The address of a PostgreSQL; empty for SQLite in the directory.
    host, port
        Where to listen; port 0 for any that is free.
    token_file
        Where the first administrator's token is written; otherwise it is printed.
    connections
        The most connections at a time; a request on one more is refused with 503.
    github
        Which repositories are followed, and how.
    """

    data: Path
    database: str = ""
    host: str = "127.0.0.1"
    port: int = 8722
    token_file: Path | None = None
    connections: int = 2000
    engine: EngineSettings = field(default_factory=EngineSettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    github: GitHubSettings = field(default_factory=GitHubSettings)


@contextmanager
def serving(settings: ServerSettings, models: Models) -> Iterator[tuple[_Server, str]]:
    """Open everything a server needs; yields the server, to be run, and its address."""
    make_directory(settings.data)
    with ExitStack() as stack:
        if not settings.database:
            # One process: a second one on the same file is told so, and not only fenced off.
            stack.enter_context(locked(settings.data))
        url = settings.database or f"sqlite:///{settings.data / 'larc.db'}"
        database = open_database(url)
        first_token(database, settings.token_file)
        listener = listening(settings.host, settings.port)
        stack.callback(listener.close)
        engine = Engine(database, models, settings.engine)
        worker = GitHubWorker(engine, settings.github)
        app = make_app(engine, settings.http, GitHubPart(settings.github, worker))
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            http=limited(settings.http.header_s),
            limit_concurrency=settings.connections,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=8,
            lifespan="off",
            server_header=False,
        )
        server = _Server(config, listener, app.close)
        engine.start()
        stack.callback(engine.stop)
        rest = RestWorker(worker)
        worker.start()
        stack.callback(worker.stop)
        rest.start()
        stack.callback(rest.stop)
        host, port = listener.getsockname()[:2]
        yield server, f"http://{f'[{host}]' if ':' in host else host}:{port}"


class _Server(uvicorn.Server):
    """A server on a socket that is open already."""

    def __init__(
        self, config: uvicorn.Config, listener: socket.socket, closing: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self.listener, self.closing = listener, closing

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End those that only listen, then wait for requests under way."""
        self.closing()
        await super().shutdown(sockets)

    def serve_here(self) -> None:
        """Serve until a signal or `should_exit` ends it."""
        self.run(sockets=[self.listener])


def run(settings: ServerSettings, models: Models, say: Callable[[str], None] = print) -> None:
    """Serve until SIGTERM or SIGINT; what was acknowledged by then is in the database."""
    log_to_stderr()
    with serving(settings, models) as (server, address):
        # Once it has ended, uvicorn raises the signal again, for whoever listened before it.
        signal.signal(signal.SIGTERM, lambda number, frame: server.handle_exit(number, frame))
        say(f"listening on {address}")  # one line, for programs that read it
        if sys.stdout.isatty():
            say(f"the dashboard is at {address}/ and asks for a token")
        sys.stdout.flush()
        server.serve_here()


@contextmanager
def running(settings: ServerSettings, models: Models) -> Iterator[str]:
    """Serve in a thread while the block lasts; yields the address."""
    with serving(settings, models) as (server, address):
        thread = threading.Thread(target=server.serve_here, name="larc-http", daemon=True)
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield address
        finally:
            server.should_exit = True
            thread.join()


def listening(host: str, port: int) -> socket.socket:
    """Return an open socket, or say why there is none."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((host, port))
        # From here on a connection waits to be served: the address is told before the server runs.
        opened.listen(2048)
    except OSError as error:
        opened.close()
        raise LarcError(
            f"{host}:{port} cannot be listened on ({error.strerror or error}); give another --port."
        ) from error
    return opened


def first_token(database: Database, file: Path | None) -> None:
    """Make the first administrator's token, once; it is written to the file, or printed.

    A token that the file holds already is the administrator's: one may be put there beforehand.
    """
    with database.reading() as connection:
        known = {row.id for row in list_tokens(connection)}
    if file is None:
        if known:
            return
        row, text = new_token(SCOPES, ["*"], note="made by larc serve")
        print(f"administrator's token, shown once: {text}", flush=True)
    else:
        text = _token_in(file)
        row, _ = new_token(SCOPES, ["*"], note="of the token file", token=text)
        if row["id"] in known:
            return
    with database.writing() as connection:
        keep_token(connection, row, "larc serve")


def _token_in(file: Path) -> str:
    """Return the token of a file, which is made with a new one if it is not there."""
    try:
        if not file.exists():
            opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(opened, "w") as out:
                out.write(new_token(SCOPES, ["*"])[1] + "\n")
        return file.read_text().strip()
    except (OSError, ValueError) as error:
        raise LarcError(f"{file} cannot be read or written ({reason(error)}).") from error


def log_to_stderr() -> None:
    """Log one line of JSON each, without prompts, labels or tokens."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines())
    level = os.environ.get("LARC_LOG", "INFO").upper()
    # Those of the libraries too: by themselves they would print errors as they are.
    for name, least in (
        ("larc.service", level),
        ("uvicorn", "WARNING"),
        ("sqlalchemy", "WARNING"),
        ("asyncio", "ERROR"),
    ):
        log = logging.getLogger(name)
        log.handlers = [handler]
        log.setLevel(least)
        log.propagate = False


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        about: dict[str, Any] = {
            "at": round(record.created, 3),
            "level": record.levelname.lower(),
            "log": record.name,
        }
        text = record.getMessage()
        about |= json.loads(text) if record.name.endswith(".requests") else {"message": text}
        if record.exc_info and record.exc_info[0] is not None:
            # Where it broke, and of what kind; what the error says may quote a prompt.
            trace = record.exc_info[2]
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            where = (
                "" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
            )
            about |= {"error": record.exc_info[0].__name__, "where": where}
        return json.dumps(about)
