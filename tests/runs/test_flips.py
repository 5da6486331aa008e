"""A changed byte of any file of a run is noticed, and the file is named."""

import shutil
from pathlib import Path

import pytest

from benchmarks.torture.flips import Flipped, flip_all

PUBLISHED = Path(__file__).parents[2] / "results" / "programs-quick"


@pytest.mark.parametrize("which", ["smoke", "published"])
def test_every_change_of_any_file_is_noticed_and_named(which, request, tmp_path):
    """A run of this version, and a published one of schema 1."""
    source = PUBLISHED if which == "published" else request.getfixturevalue("smoke")
    run = tmp_path / "run"
    shutil.copytree(source, run, ignore=shutil.ignore_patterns("lock"))  # schema 1 left it behind
    files = sum(path.is_file() for path in run.rglob("*"))
    found = Flipped()
    # Of each file: first byte, last byte, some byte, a cut, one more byte, removal, a neighbour.
    flip_all(run, 7 * files, seed=1, found=found, say=lambda _: None)
    assert found.missed == []
    assert found.caught == 7 * files > 300
