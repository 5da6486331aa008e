from collections.abc import Callable

import pytest

from larc.domains.ci import Job


@pytest.fixture
def make_row() -> Callable[..., dict[str, object]]:
    def make(**changes: object) -> dict[str, object]:
        row: dict[str, object] = {
            "repository": "o/r",
            "workflow_id": 5,
            "workflow_path": ".github/workflows/ci.yml",
            "workflow_name": "CI",
            "event": "push",
            "job_name": "build",
            "head_sha": "c0ffee",
            "started_at": "2026-01-02T00:00:00Z",
            "completed_at": "2026-01-02T00:00:09Z",
            "conclusion": "success",
            "job_id": 7,
            "run_id": 3,
            "run_attempt": 1,
        }
        return row | changes

    return make


@pytest.fixture
def make_job() -> Callable[..., Job]:
    base = Job("o/r", 5, "ci.yml", "CI", "push", "build", "c0ffee", 100, 110, 0, 1, 3, 1)
    return lambda **changes: base._replace(**changes)
