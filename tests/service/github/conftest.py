import pytest

from tests.service.github.deliveries import Follower, settings


@pytest.fixture
def follow(start):
    """Starts servers in this process that follow repositories."""

    def starting(database="", data="data", **changes):
        return Follower(start(database, data, github=settings(**changes)))

    return starting


@pytest.fixture
def follower(follow, database):
    return follow(database)


@pytest.fixture
def sqlite_follower(follow):
    return follow()
