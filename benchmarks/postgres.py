"""A private PostgreSQL for tests: Debian's, on a free port of the loopback, gone afterwards."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

USER = "postgres"


def binaries():
    """Return where PostgreSQL's programs are, or nothing."""
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).parent
    here = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return here[-1].parent if here else None


class Postgres:
    """A running cluster."""

    def __init__(self):
        self.directory = Path(tempfile.mkdtemp(prefix="larc-postgres-"))
        # The server refuses to be root; root starts it as the user that the package made.
        self.user = USER if os.geteuid() == 0 else None
        if self.user:
            shutil.chown(self.directory, self.user, self.user)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.run("initdb", "-D", self.data, "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync")
        self.start()
        self.count = 0

    @property
    def data(self):
        return str(self.directory / "data")

    def run(self, program, *arguments):
        command = [str(binaries() / program), *arguments]
        subprocess.run(
            command,
            check=True,
            user=self.user,
            cwd=self.directory,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def start(self):
        options = f"-p {self.port} -h 127.0.0.1 -k {self.directory} -c max_connections=200"
        start = ("-D", self.data, "-o", options, "-w", "-l", f"{self.data}/log", "start")
        # Its port is one of those that connections get, too, and so may be in use for a moment.
        for pause in (0.5, 1.0, 2.0, 4.0):
            try:
                return self.run("pg_ctl", *start)
            except subprocess.CalledProcessError:
                time.sleep(pause)
        return self.run("pg_ctl", *start)

    def runs(self):
        """Say whether it is up."""
        try:
            self.run("pg_ctl", "-D", self.data, "status")
        except subprocess.CalledProcessError:
            return False
        return True

    def stop(self, how="fast"):
        self.run("pg_ctl", "-D", self.data, "-m", how, "-w", "stop")

    def address(self, name):
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{name}"

    def new(self):
        """Make an empty database; returns its address."""
        import psycopg

        self.count += 1
        name = f"larc_{self.count}"
        with psycopg.connect(self.address("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.address(name)

    def close(self):
        self.stop("immediate")
        shutil.rmtree(self.directory, ignore_errors=True)
