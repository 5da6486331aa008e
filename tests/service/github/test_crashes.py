"""A server that is killed in the middle of a history goes on where it was."""

from larc.service.github.replay import replay_webhooks
from tests.service.conftest import Server, options, until
from tests.service.github.deliveries import SECRET, Follower
from tests.service.github.test_replay import NAME, STREAM, history

ENVIRONMENT = {"LARC_GITHUB_WEBHOOK_SECRET": SECRET}


def finished(follower, count):
    view = until(lambda: (v := follower.view(NAME))["counts"]["ended"] == count and v)
    until(lambda: follower.server.status(STREAM)["labelled"] == count)
    return view


def test_nothing_acknowledged_is_lost_and_nothing_is_done_twice(processes, database):
    jobs = history(30)
    process = processes("data", *options(database), environment=ENVIRONMENT)
    server = process.start()
    # Killed as soon as the last delivery is acknowledged: most of them wait in the inbox.
    played = replay_webhooks(server.address, SECRET, jobs)
    process.kill()
    server = process.start()
    again = replay_webhooks(server.address, SECRET, jobs)
    assert again.duplicates == again.deliveries == played.deliveries
    view = finished(Follower(server), len(jobs))
    log = Follower(server).log(STREAM)
    assert len(log) == len(set(log)) == 2 * len(jobs)
    assert view["counts"]["predicted"] == len(jobs)
    assert view["counts"]["left_out"] == {}


def test_killed_again_and_again(processes):
    jobs = history(24)
    process = processes("data", environment=ENVIRONMENT)
    for part in range(4):
        server = process.start()
        replay_webhooks(server.address, SECRET, jobs[6 * part : 6 * part + 6])
        process.kill()
    server = process.start()
    finished(Follower(server), len(jobs))
    log = Follower(server).log(STREAM)
    assert len(log) == len(set(log)) == 2 * len(jobs)
    assert isinstance(server, Server)
