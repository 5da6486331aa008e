import pytest

from larc.domains.ci import LABELS, Job, LeftOut, Reason, job_from_row, label_of


@pytest.mark.parametrize(
    ("conclusion", "label"),
    [
        ("success", 0),
        ("failure", 1),
        ("cancelled", 2),
        ("timed_out", 3),
        ("action_required", 3),
        ("neutral", 3),
        ("skipped", 3),
        ("stale", 3),
    ],
)
def test_every_conclusion_has_the_papers_label(make_row, conclusion, label):
    job = job_from_row(make_row(conclusion=conclusion))
    assert isinstance(job, Job)
    assert job.label == label == label_of(conclusion)
    assert len(LABELS) == 4


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"conclusion": None}, Reason.NOT_COMPLETED),
        ({"status": "in_progress"}, Reason.NOT_COMPLETED),
        ({"conclusion": "startup_failure"}, Reason.UNRECOGNIZED_CONCLUSION),
        ({"conclusion": "Success"}, Reason.UNRECOGNIZED_CONCLUSION),
        ({"conclusion": 1}, Reason.INVALID_TYPE),
        ({"completed_at": None}, Reason.MISSING_TIMESTAMP),
        ({"started_at": ""}, Reason.MISSING_TIMESTAMP),
        ({"started_at": "yesterday"}, Reason.INVALID_TIMESTAMP),
        ({"started_at": "2026-02-30T00:00:00Z"}, Reason.INVALID_TIMESTAMP),
        ({"started_at": "0001-01-01T00:00:00Z"}, Reason.INVALID_TIMESTAMP),
        ({"completed_at": 10**15}, Reason.INVALID_TIMESTAMP),
        ({"started_at": "2026-01-02T00:00:00"}, Reason.TIMESTAMP_WITHOUT_ZONE),
        ({"started_at": 1.5}, Reason.INVALID_TYPE),
        ({"started_at": True}, Reason.INVALID_TYPE),
        ({"started_at": float("nan")}, Reason.INVALID_TYPE),
        ({"completed_at": "2026-01-01T23:59:59Z"}, Reason.COMPLETED_BEFORE_STARTED),
        ({"repository": None}, Reason.MISSING_IDENTITY),
        ({"repository": ["o/r"]}, Reason.INVALID_TYPE),
        ({"job_name": ""}, Reason.MISSING_IDENTITY),
        ({"head_sha": None}, Reason.MISSING_IDENTITY),
        ({"job_id": None}, Reason.MISSING_IDENTITY),
        ({"job_id": "7"}, Reason.INVALID_TYPE),
        ({"job_id": True}, Reason.INVALID_TYPE),
        ({"job_id": 7.0}, Reason.INVALID_TYPE),
        ({"job_id": 2**63}, Reason.INVALID_TYPE),
        ({"job_id": -1}, Reason.INVALID_TYPE),
        ({"workflow_id": "5"}, Reason.INVALID_TYPE),
        ({"event": {}}, Reason.INVALID_TYPE),
        ({"job_name": "\ud800"}, Reason.INVALID_TEXT),
    ],
)
def test_a_row_is_left_out_for_its_reason(make_row, changes, reason):
    outcome = job_from_row(make_row(**changes))
    assert isinstance(outcome, LeftOut)
    assert outcome.reason is reason
    assert outcome.detail


def test_absent_workflow_fields_are_none(make_row):
    absent = dict.fromkeys(("workflow_id", "workflow_path", "workflow_name", "event"))
    job = job_from_row(make_row(**absent, run_id=None, run_attempt=None))
    assert isinstance(job, Job)
    assert job.observation.workflow_id is job.observation.event is None


def test_times_are_utc_seconds_rounded_down(make_row):
    job = job_from_row(
        make_row(started_at="2026-01-02T02:00:00.999+02:00", completed_at=1767312000)
    )
    assert isinstance(job, Job)
    assert job.started_at == job.completed_at == 1767312000


def test_a_text_is_kept_once(make_row):
    texts: dict[str, str] = {}
    rows = [make_row(job_name="".join(["a", "b"])) for _ in range(2)]
    first, second = (job_from_row(row, texts) for row in rows)
    assert isinstance(first, Job)
    assert isinstance(second, Job)
    assert first.job_name is second.job_name


def test_the_observation_is_the_seven_public_fields(make_job):
    job = make_job(label=2)
    assert job.observation == make_job(label=0, completed_at=999, job_id=9, run_id=9).observation
    assert len(job.observation.__slots__) == 7
