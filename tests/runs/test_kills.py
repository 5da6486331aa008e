"""Killed at random moments and started again, a study or session ends as if it had been let be."""

import pytest

from benchmarks.torture.kills import Killed, Killer


@pytest.mark.parametrize(("workload", "kills"), [("live", 3), ("programs", 2), ("ci", 1)])
def test_a_killed_process_goes_on_to_the_same_bytes(workload, kills, tmp_path):
    outcome = Killed()
    Killer(tmp_path, seed=20260929, workload=workload).torture(kills, outcome, say=print)
    assert outcome.problems == []
    assert outcome.lost == 0
    assert outcome.kills == kills
