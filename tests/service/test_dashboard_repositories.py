"""The pages of repositories, made from deliveries as GitHub sends them."""

import httpx
import pytest

from tests.service.conftest import until
from tests.service.github.conftest import follow  # noqa: F401
from tests.service.github.deliveries import job_event, run_event, stamp

EVIL = "<script>alert(1)</script>"


@pytest.fixture
def follower(follow, database):  # noqa: F811
    """A repository with a flaky job, one that succeeded, and one that runs under a hostile name."""
    follower = follow(database)
    follower.send_all(run_event())
    for number, conclusion in ((1, "success"), (2, "failure"), (3, "success"), (4, "failure")):
        times = {"started_at": stamp(100 * number), "completed_at": stamp(100 * number + 60)}
        follower.send_all(job_event(number, started_at=times["started_at"]))
        follower.view()
        follower.send_all(job_event(number, "completed", conclusion=conclusion, **times))
        follower.view()
    follower.send_all(job_event(9, name=EVIL, head_branch=EVIL, started_at=stamp(1000)))
    until(lambda: [one["risk"] for one in follower.view()["running"]] != [None])
    return follower


@pytest.fixture
def visit(follower):
    visits = []

    def visiting(token):
        visits.append(httpx.Client(base_url=follower.server.address, follow_redirects=True))
        visits[-1].post("/login", data={"token": token})
        return visits[-1]

    yield visiting
    for one in visits:
        one.close()


def test_a_repository_as_github_told_it(follower, visit):
    view = follower.view()
    person = visit(follower.server.token)
    assert 'href="/repositories/o/r"' in person.get("/repositories").text
    page = person.get("/repositories/o/r")
    assert page.status_code == 200
    text = page.text
    (running,) = view["running"]
    assert f"{100 * running['risk']:.1f}\u00a0%" in text
    assert "&lt;script&gt;" in text
    assert EVIL not in text
    (flaky,) = view["flaky"]
    assert flaky["name"] in text
    assert "A flaky job succeeded and failed on the same commit" in text
    for line in view["what_if"]:
        assert f"<th>{100 * line['at']:.0f}\u00a0%</th>" in text
    assert 'href="https://github.com/o/r/actions/runs/3/job/1"' in text
    # From the job to what was asked about it, and why it was answered so.
    question = person.get(f"/streams/{view['stream']}/question", params={"id": running["question"]})
    assert "of the trust and gives it" in question.text
    assert person.get(f"/streams/{view['stream']}").status_code == 200


def test_another_customers_repository_does_not_exist(follower, visit):
    view = follower.view()
    stranger = visit(follower.server.token_for(["read"], ["other.*"]))
    assert "o/r" not in stranger.get("/repositories").text
    assert stranger.get("/repositories/o/r").status_code == 404
    assert stranger.get("/repositories/o/unknown").status_code == 404
    single = visit(follower.server.token_for(["read"], [view["stream"]]))
    assert single.get("/repositories/o/r").status_code == 200


def test_a_page_links_to_no_other_scheme(follower, visit):
    follower.send_all(
        job_event(10, html_url="javascript:alert(1)", name="odd", started_at=stamp(2000))
    )
    follower.view()
    assert "javascript:" not in visit(follower.server.token).get("/repositories/o/r").text
