import os
import signal
from pathlib import Path

# As the command line does, and before torch is loaded: threads that wait do not spin.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# Processes that tests start have one thread too: two tests run at once.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch

import larc
from larc.substrate.fetching import cache_directory

# One thread: sums in a fixed order, and a small model has nothing to share out.
torch.set_num_threads(1)
# A background job of a shell ignores Ctrl-C, and so do its children; tests press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def tiny():
    return larc.load_substrate("tiny")


@pytest.fixture(scope="session")
def smollm2():
    if not (cache_directory() / "smollm2-135m" / "config.json").is_file():
        # Continuous integration fetches the model first; there its absence is a failure.
        if os.environ.get("CI"):
            pytest.fail("smollm2-135m was not fetched; run `larc fetch smollm2-135m` first")
        pytest.skip("needs `larc fetch smollm2-135m`")
    return larc.load_substrate("smollm2-135m")


@pytest.fixture(scope="session")
def shared_data():
    directory = Path(
        os.environ.get("LARC_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data")
    )
    if not directory.is_dir():
        pytest.skip("needs the shared data sets")
    return directory


@pytest.fixture(scope="session")
def smoke(tmp_path_factory):
    """The smoke study, from command to report."""
    from larc.cli import main

    out = tmp_path_factory.mktemp("runs") / "smoke"
    assert main(["study", "programs", "--preset", "smoke", "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    from tests.browser import launch

    with sync_playwright() as playwright:
        started = launch(playwright)
        if started is None:
            # Continuous integration brings a browser first; there its absence is a failure.
            (pytest.fail if os.environ.get("CI") else pytest.skip)(
                "no Chromium starts here; run `python -m tests.browser` to bring one"
            )
        yield started
        started.close()
