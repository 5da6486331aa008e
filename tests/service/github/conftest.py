from contextlib import ExitStack

import pytest

from larc.service.server import ServerSettings, running
from tests.service.conftest import Server
from tests.service.github.deliveries import Follower, settings


@pytest.fixture
def follow(tmp_path, models):
    """Starts servers in this process that follow repositories."""
    with ExitStack() as stack:

        def starting(database="", data="data", **changes):
            file = tmp_path / f"{data}-token"
            chosen = ServerSettings(
                tmp_path / data,
                database,
                port=0,
                token_file=file,
                github=settings(**changes),
            )
            address = stack.enter_context(running(chosen, models))
            server = Server(address, file.read_text().strip())
            stack.callback(server.http.close)
            return Follower(server)

        yield starting


@pytest.fixture
def follower(follow, database):
    return follow(database)


@pytest.fixture
def sqlite_follower(follow):
    return follow()
