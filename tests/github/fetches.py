"""What the tests of fetching share: a window, a clock, a fetch, and what it should give."""

import json
from datetime import UTC, datetime

from larc.github.fetching import fetch_jobs
from larc.github.payloads import flat_row
from tests.github.github_server import make_jobs, make_run

TOKEN = "ghp_neverToBeSeenAnywhere0123456789"
WINDOW = {"since": "2026-01-05", "until": "2026-01-07"}
LATER = datetime(2026, 3, 1, tzinfo=UTC).timestamp()


def fill(server, runs, jobs=2):
    for number in range(runs):
        run = make_run(number)
        server.runs.append(run)
        server.jobs[run["id"]] = make_jobs(run, jobs)


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self, now=LATER):
        self.now, self.slept = now, []

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


def fetch(server, out, clock=None, **changes):
    clock = clock or Clock()
    arguments = {**WINDOW, "out": out, "base_url": server.url, "token": TOKEN}
    arguments |= {"sleep": clock.sleep, "clock": clock} | changes
    return fetch_jobs(arguments.pop("repository", "o/r"), **arguments)


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def expected(server):
    flat_rows = [flat_row(job, run) for run in server.runs for job in server.jobs[run["id"]]]
    return sorted(flat_rows, key=lambda row: (row["started_at"], row["job_id"]))


def names(directory):
    return sorted(path.name for path in directory.iterdir())
