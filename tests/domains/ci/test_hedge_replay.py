import json

import numpy as np
import pytest

from larc.domains.ci import Arrival, Hedge4, HedgeReplay, Job, hedge_after, replay
from larc.domains.ci.synthetic import synthetic_jobs
from larc.errors import LarcError
from larc.stream.queue import Ask, order_events

JOBS = synthetic_jobs(120, seed=3)


def events(jobs):
    return list(
        order_events(
            jobs,
            asked=lambda job: job.started_at,
            arrives=lambda job: job.completed_at,
            identifier=lambda job: job.job_id,
        )
    )


def by_hand(jobs):
    """The paper's replay written out: predict at the start, keep it, learn from it at the end."""
    hedge, kept, forecasts = Hedge4(), {}, {}
    for event in events(jobs):
        if isinstance(event, Ask):
            for job in event.items:
                kept[job.job_id] = forecasts[job.job_id] = hedge.predict(job.observation)
        else:
            hedge.update(
                [Arrival(job.observation, kept[job.job_id], job.label) for job in event.items]
            )
    return hedge, forecasts


def same(first, second):
    one, other = first.state(), second.state()
    return np.array_equal(one.pop("logistic"), other.pop("logistic")) and one == other


def test_following_a_queue_is_predicting_at_starts_and_learning_at_ends():
    hedge, expected = by_hand(JOBS)
    driven = HedgeReplay()
    forecasts = {one.job.job_id: one.forecast for one in driven.follow(reversed(JOBS))}
    assert forecasts == expected
    assert same(driven.hedge, hedge)
    assert driven.pending == {}
    assert same(hedge_after(JOBS).hedge, hedge)


def test_each_repository_is_replayed_by_its_own_and_a_history_is_pooled():
    alone = {one.job.job_id: one.forecast for one in replay(JOBS)}
    for name in ("synthetic/one", "synthetic/two"):
        jobs = [job for job in JOBS if job.repository == name]
        assert by_hand(jobs)[1] == {job.job_id: alone[job.job_id] for job in jobs}
    assert by_hand(JOBS)[1] != alone


@pytest.mark.parametrize("stop", [1, 40, 90])
def test_a_state_through_json_goes_on_bit_for_bit(stop):
    whole = by_hand(JOBS)[1]
    first, forecasts = HedgeReplay(), {}
    queue = events(JOBS)

    def go(replay, part):
        for event in part:
            if isinstance(event, Ask):
                ids = [job.job_id for job in event.items]
                forecasts.update(zip(ids, replay.ask(event.items), strict=True))
            else:
                replay.learn(event.items)

    go(first, queue[:stop])
    assert first.pending
    second = HedgeReplay.from_state(json.loads(json.dumps(first.state())))
    assert second.pending == first.pending
    go(second, queue[stop:])
    assert forecasts == whole


def test_a_state_that_awaits_no_number_is_refused():
    state = HedgeReplay().state()
    state["forecasts"]["x"] = [[0.25] * 4, [[0.25] * 4] * 4]
    with pytest.raises(LarcError, match="awaits a job called 'x'"):
        HedgeReplay.from_state(state)


def test_a_label_nobody_asked_for_changes_nothing():
    asked, never = JOBS[0], JOBS[1]
    driven = HedgeReplay()
    driven.ask([asked])
    with pytest.raises(LarcError, match=f"label of job {never.job_id} arrived"):
        driven.learn([asked, never])
    assert list(driven.pending) == [asked.job_id]
    assert same(driven.hedge, Hedge4())


def test_two_jobs_of_one_id_are_refused_before_the_first_prediction():
    job = Job("o/r", 5, None, None, "push", "build", "aa", 10, 20, 1, 1, None, None)
    driven = HedgeReplay()
    with pytest.raises(LarcError, match="two items"):
        next(driven.follow([job, job._replace(repository="o/other")]))
    assert driven.pending == {}
