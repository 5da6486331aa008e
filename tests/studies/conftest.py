import pytest

from larc.cli import main


@pytest.fixture(scope="session")
def smoke(tmp_path_factory):
    """The smoke study, from command to report."""
    out = tmp_path_factory.mktemp("runs") / "smoke"
    assert main(["study", "programs", "--preset", "smoke", "--out", str(out)]) == 0
    return out
