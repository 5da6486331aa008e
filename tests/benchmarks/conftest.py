import importlib.util

import pytest

from benchmarks.speed.setting import Setting


@pytest.fixture(scope="session")
def setting(tiny):
    return Setting(tiny, repetitions=1, quick=True)


@pytest.fixture(scope="session")
def peer():
    """Return what skips a test whose peer is not installed; `make bench` brings them all."""

    def need(*names: str) -> None:
        # Found, not imported: old packages warn of a new torch.
        missing = [name for name in names if importlib.util.find_spec(name) is None]
        if missing:
            pytest.skip(f"needs {', '.join(missing)}: `make bench` brings it")

    return need
