import os
from collections.abc import Iterator

import pytest

from tests.github.fetches import fill
from tests.github.github_server import GitHubServer


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture
def server() -> Iterator[GitHubServer]:
    with GitHubServer() as server:
        fill(server, 6)
        yield server
