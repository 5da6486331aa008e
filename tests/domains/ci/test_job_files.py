"""Every job file there is: no crash, nothing unaccounted for, and the same bytes twice.

Files are taken from the directory that ``LARC_JOB_FILES`` names, or from the shared data. Of long
ones only the first rows are replayed, unless ``LARC_WHOLE_FILES=1``.
"""

import gzip
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from larc.domains.ci import PREDICTORS

ROWS = 10_000
SHARED = Path(__file__).parents[4] / "shared" / "data" / "ci"
PLACE = Path(os.environ.get("LARC_JOB_FILES", SHARED))
KINDS = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".parquet")
FILES = sorted(path for path in PLACE.glob("*") if path.name.endswith(KINDS))
SCRIPT = "import sys; from larc.cli import main; sys.exit(main())"

pytestmark = [
    pytest.mark.files,
    pytest.mark.skipif(not FILES, reason="there are no job files; name a directory of some"),
]


@pytest.fixture
def part(request, tmp_path):
    """Return a job file and the number of its rows, where they can be counted by its lines."""
    path = request.param
    if ".jsonl" not in path.name:
        return path, None
    whole = os.environ.get("LARC_WHOLE_FILES") == "1"
    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as lines:
        if whole:
            return path, sum(1 for _ in lines)
        head = list(itertools.islice(lines, ROWS))
    (tmp_path / "head.jsonl").write_bytes(b"".join(head))
    return tmp_path / "head.jsonl", len(head)


def replayed(path, seed):
    """Return what a process of its own says; no order of a set or a hash may show in it."""
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, "ci", "baseline", str(path), "--json"],
        cwd=Path(__file__).parents[3],
        env=os.environ | {"PYTHONHASHSEED": seed},
        capture_output=True,
        check=True,
    ).stdout


@pytest.mark.parametrize("part", FILES, ids=lambda path: path.name, indirect=True)
def test_a_job_file_is_accounted_for_and_replays_to_the_same_bytes(part):
    path, rows = part
    output = replayed(path, "1")
    assert replayed(path, "2") == output
    report = json.loads(output)
    counts = report["rows"]
    assert counts["read"] == counts["accepted"] + sum(counts["left_out"].values())
    assert rows in (None, counts["read"])
    assert (
        sum(repository["jobs"] for repository in report["repositories"].values())
        == counts["accepted"]
    )
    for predictor in PREDICTORS:
        for loss in report["half_brier"][predictor].values():
            assert (loss is None) == (counts["accepted"] == 0)
            assert loss is None or 0.0 <= loss <= 1.0
