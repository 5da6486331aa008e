import pytest

from larc.bench.setting import Setting


@pytest.fixture
def setting(tiny):
    return Setting(tiny, repetitions=1, quick=True)
