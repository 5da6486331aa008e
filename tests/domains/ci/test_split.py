"""Windows of job histories: nothing that is audited, or not yet known, is trained on."""

import pytest

from larc.domains.ci.jobs import Job
from larc.domains.ci.split import Window, split_jobs
from larc.errors import LarcError

BOTH = (Window(until=100), Window(since=100))


def job(number, start, end, commit=None, repository="o/r"):
    sha = commit or f"c{number}"
    return Job(
        repository, 1, "ci.yml", "CI", "push", "build", sha, start, end, 0, number, number, 1
    )


def ids(jobs):
    return [one.job_id for one in jobs]


def test_a_job_that_ends_after_the_audit_begins_is_not_trained_on():
    jobs = [job(1, 10, 20), job(2, 80, 120), job(3, 90, 121), job(4, 120, 130), job(5, 150, 160)]
    split = split_jobs(jobs, BOTH)
    # Job 2 ends as the audit begins: its label is there when the second is over, so it stays.
    assert ids(split.training) == [1, 2]
    assert ids(split.audit) == [4, 5]
    assert split.late_jobs == 1


def test_each_repository_has_a_clock_of_its_own():
    jobs = [job(1, 10, 500), job(2, 600, 610), job(3, 10, 20, repository="o/s")]
    jobs.append(job(4, 400, 410, repository="o/s"))
    split = split_jobs(jobs, BOTH)
    assert ids(split.training) == [1, 3]
    assert split.late_jobs == 0


def test_a_commit_in_both_windows_is_in_neither_and_does_not_begin_the_audit():
    jobs = [job(1, 10, 20), job(2, 90, 110, commit="x"), job(3, 105, 106, commit="x")]
    jobs += [job(4, 50, 180), job(5, 200, 210)]
    split = split_jobs(jobs, BOTH)
    assert (ids(split.training), ids(split.audit)) == ([1, 4], [5])
    assert (split.shared_commits, split.shared_jobs, split.late_jobs) == (1, 2, 0)


def test_windows_that_leave_nothing_known_are_refused():
    with pytest.raises(LarcError, match="0 training and 1 audit jobs"):
        split_jobs([job(1, 10, 300), job(2, 200, 210)], BOTH)
