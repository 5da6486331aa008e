"""A changed byte of any file of a run's record is noticed, and the file is named."""

import shutil
from pathlib import Path

import pytest

from benchmarks.torture.flips import Flipped, flip_all, recorded
from larc.runs.archive import unpack

# Of schema 1.
PUBLISHED = Path(__file__).parents[2] / "results" / "programs-quick.larc"


@pytest.mark.parametrize("which", ["smoke", "published", "archive"])
def test_every_change_of_any_file_is_noticed_and_named(which, request, tmp_path):
    """A run of this version, a published one, and that one as it is packed."""
    run = tmp_path / "run"
    if which == "smoke":
        shutil.copytree(request.getfixturevalue("smoke"), run)
    elif which == "published":
        unpack(PUBLISHED, run)
    else:
        run = tmp_path / "run.larc"
        shutil.copyfile(PUBLISHED, run)
    # Of each file: first byte, last byte, some byte, a cut, one more byte, removal, a neighbour.
    count = 7 * max(len(recorded(run)), 40)
    flipped = Flipped()
    flip_all(run, count, seed=1, outcome=flipped, say=lambda _: None)
    assert flipped.missed == []
    assert flipped.caught == count
