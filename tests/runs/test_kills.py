"""Killed at random moments and started again, a study or session ends as if it had been let be."""

import pytest

from benchmarks.torture.kills import Killed, Killer


@pytest.mark.parametrize(("workload", "kills"), [("live", 3), ("programs", 2), ("ci", 1)])
def test_a_killed_process_goes_on_to_the_same_bytes(workload, kills, tmp_path):
    found = Killed()
    Killer(tmp_path, seed=20260929, workload=workload).torture(kills, found, say=print)
    assert found.problems == []
    assert found.lost == 0
    assert found.kills == kills
