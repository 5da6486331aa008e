"""Jobs that run are questions, and their completion is a label."""

import pytest

import larc
from larc.domains.ci.jobs import LeftOut, Reason
from larc.domains.ci.prompter import JobLabel, JobPrompter, job_event, recorded_job
from larc.domains.ci.synthetic import synthetic_jobs
from larc.github.payloads import flat_row
from larc.stream.question import Question

JOB = {
    "id": 7,
    "run_id": 3,
    "name": "build",
    "head_sha": "c0ffee",
    "status": "in_progress",
    "conclusion": None,
    "started_at": "2026-01-02T00:00:00Z",
    "completed_at": None,
    "run_url": "https://api.github.com/repos/o/r/actions/runs/3",
}
ENDED = {
    **JOB,
    "status": "completed",
    "conclusion": "failure",
    "completed_at": "2026-01-02T00:10:00Z",
}


def test_a_webhook_asks_and_a_later_one_teaches(tiny):
    learner = larc.Learner(tiny, larc.SlowState.initial(tiny, seed=1), larc.SGD(0.5))
    strategies = [larc.Strategy("cases", view="remembered")]
    session = larc.Session(learner, strategies, JobPrompter(), seed=1)
    question = job_event(flat_row(JOB))
    assert isinstance(question, Question)
    session.ask([question])
    ended = job_event(flat_row(ENDED))
    assert ended == JobLabel(question.name, 1)
    session.learn(dict([ended]))
    with pytest.raises(larc.DuplicateLabel):
        session.learn(dict([ended]))
    assert session.prompter.size


def test_a_running_job_is_asked_as_its_record_is_replayed():
    (job,) = synthetic_jobs(1, seed=1)
    row = {**job._asdict(), "status": "in_progress", "completed_at": None}
    assert job_event(row) == recorded_job(job).question


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"status": "queued"}, Reason.NOT_COMPLETED),
        ({"status": "in_progress", "conclusion": "success"}, Reason.NOT_COMPLETED),
        ({"status": None}, Reason.NOT_COMPLETED),
        ({"started_at": None}, Reason.MISSING_TIMESTAMP),
        ({"id": None}, Reason.MISSING_IDENTITY),
        ({"id": True}, Reason.INVALID_TYPE),
        ({"status": "completed", "conclusion": "bewildered"}, Reason.UNRECOGNIZED_CONCLUSION),
    ],
)
def test_what_is_neither_is_left_out_with_its_reason(change, reason):
    event = job_event(flat_row({**JOB, **change}))
    assert isinstance(event, LeftOut)
    assert event.reason is reason
