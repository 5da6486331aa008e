import json

from larc.domains.ci import read_jobs
from larc.github.payloads import flat_row, read_payload

RUN = {
    "id": 3,
    "name": "CI",
    "path": ".github/workflows/ci.yml",
    "workflow_id": 5,
    "event": "push",
    "jobs_url": "https://api.example.org/repos/o/r/actions/runs/3/jobs",
    "repository": {"full_name": "o/r"},
}
JOB = {
    "id": 7,
    "run_id": 3,
    "run_url": "https://host.example.org/api/v3/repos/o/r/actions/runs/3",
    "head_sha": "c0ffee",
    "name": "build",
    "status": "completed",
    "conclusion": "failure",
    "started_at": "2026-01-02T00:00:00Z",
    "completed_at": "2026-01-02T00:00:09Z",
}


def test_a_job_alone_names_its_repository():
    row = flat_row(JOB)
    assert row["repository"] == "o/r"
    assert row["workflow_id"] is row["event"] is None


def test_a_run_completes_its_jobs_wherever_it_stands(tmp_path):
    jobs_file, run_file = tmp_path / "a_jobs.json", tmp_path / "b_run.json"
    jobs_file.write_text(json.dumps({"total_count": 1, "jobs": [JOB]}, indent=2))
    run_file.write_text(json.dumps(RUN, indent=2))
    for paths in (tmp_path, [jobs_file, run_file], [run_file, jobs_file]):
        [job], accounting = read_jobs(paths)
        assert (job.workflow_id, job.workflow_path, job.event) == (5, RUN["path"], "push")
        assert (job.workflow_name, job.label, accounting.runs) == ("CI", 1, 1)


def test_answers_may_stand_on_lines(tmp_path):
    path = tmp_path / "pages.jsonl"
    other = JOB | {"id": 8}
    delivery = {
        "action": "completed",
        "workflow_job": JOB | {"id": 9},
        "repository": {"full_name": "o/r"},
    }
    documents = [{"workflow_runs": [RUN]}, {"jobs": [JOB, 3]}, other, delivery]
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))
    jobs, accounting = read_jobs(path)
    assert sorted(job.job_id for job in jobs) == [7, 8, 9]
    assert {job.event for job in jobs} == {"push"}
    assert accounting.left_out == {"not_an_object": 1}


def test_an_error_answer_is_no_job():
    assert read_payload({"message": "API rate limit exceeded", "documentation_url": "x"}) is None


def test_the_samples_are_read_in_both_generations(shared_data):
    pairs = sorted((shared_data / "github").glob("ozone_*_job.json"))
    if not pairs:
        return
    for path in pairs:
        run = path.with_name(path.name.replace("_job", "_run"))
        alone, _ = read_jobs(path)
        jobs, accounting = read_jobs([path, run])
        assert {job.repository for job in jobs + alone} == {"apache/ozone"}
        assert {job.workflow_id for job in alone} == {None}
        assert {job.workflow_id for job in jobs} == {8247}
        assert len(jobs) == len(alone)
        assert accounting.runs == 1
