import pytest

from larc.bench.setting import Setting


@pytest.fixture(scope="session")
def setting(tiny):
    return Setting(tiny, repetitions=1, quick=True)
