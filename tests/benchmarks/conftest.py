import pytest

from benchmarks.speed.setting import Setting


@pytest.fixture(scope="session")
def setting(tiny):
    return Setting(tiny, repetitions=1, quick=True)
