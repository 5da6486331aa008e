import json
import random

import numpy as np
import pytest

from larc.cli import main
from larc.domains.ci import PREDICTORS, baseline, half_brier, read_jobs, replay
from larc.domains.ci.experts import CHOICE


def test_weights_are_nested_by_commit_and_flat_by_job(make_job):
    jobs = [
        make_job(
            job_id=number,
            repository=repository,
            head_sha=commit,
            started_at=100 + 20 * number,
            completed_at=110 + 20 * number,
            label=label,
        )
        for number, (repository, commit, label) in enumerate(
            [("a", "1", 0), ("a", "1", 1), ("a", "1", 0), ("a", "2", 3), ("b", "1", 2)]
        )
    ]
    report = baseline(jobs)
    loss = {
        prediction.job.job_id: half_brier(prediction.forecast.mixture, prediction.job.label)
        for prediction in replay(jobs)
    }
    nested = np.mean([np.mean([np.mean([loss[0], loss[1], loss[2]]), loss[3]]), loss[4]])
    assert report.half_brier["hedge4"]["commit"] == pytest.approx(nested, abs=1e-15)
    assert report.half_brier["hedge4"]["job"] == pytest.approx(np.mean(list(loss.values())))
    assert report.repositories["a"]["jobs"] == 4
    assert report.repositories["a"]["commits"] == 2


def test_repositories_do_not_learn_from_each_other(make_job):
    jobs = [
        make_job(
            job_id=number, started_at=100 + 20 * number, completed_at=110 + 20 * number, label=1
        )
        for number in range(5)
    ]
    alone = [prediction.forecast for prediction in replay(jobs)]
    others = [job._replace(repository="b/b", label=2, job_id=job.job_id + 50) for job in jobs]
    together = [
        prediction.forecast
        for prediction in replay(others + jobs)
        if prediction.job.repository == "o/r"
    ]
    assert together == alone


def test_the_json_form(make_job):
    report = json.loads(baseline([make_job()]).to_json())
    assert report["rows"] == {"read": 1, "accepted": 1, "left_out": {}}
    assert list(report["half_brier"]) == list(PREDICTORS)
    assert PREDICTORS == ("hedge4", "prior", "last", "commit", "logistic")
    assert report["half_brier"]["last"] == {"commit": 0.375, "job": 0.375}


def test_the_text_says_what_is_not_blind_and_the_json_is_the_report_alone(
    make_row, tmp_path, capsys
):
    path = tmp_path / "jobs.jsonl"
    path.write_text(json.dumps(make_row()) + "\nno row\n")
    assert main(["ci", "baseline", str(path)]) == 0
    text = capsys.readouterr().out
    assert "2 rows read, 1 accepted, left out: 1 invalid_json" in text
    assert " ".join(text.split()).endswith(CHOICE)
    assert main(["ci", "baseline", str(path), "--json"]) == 0
    assert capsys.readouterr().out == baseline(*read_jobs(path)).to_json() + "\n"


def test_no_jobs_give_no_scores():
    report = json.loads(baseline([]).to_json())
    assert report["half_brier"]["hedge4"] == {"commit": None, "job": None}


def test_the_order_of_the_rows_does_not_matter(make_job):
    chance = random.Random(5)
    jobs = []
    for number in range(60):
        start = chance.randrange(50)
        jobs.append(
            make_job(
                job_id=number,
                repository=chance.choice(["a/a", "b/b"]),
                head_sha=chance.choice("12"),
                started_at=start,
                completed_at=start + chance.randrange(9),
                label=chance.randrange(4),
            )
        )
    report = baseline(jobs).to_json()
    chance.shuffle(jobs)
    assert baseline(jobs).to_json() == report


def test_shared_samples_give_the_same_bytes_twice(shared_data):
    for path in [*sorted((shared_data / "github").iterdir()), shared_data / "github"]:
        assert baseline(*read_jobs(path)).to_json() == baseline(*read_jobs(path)).to_json()
