import json
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from larc.domains.ci import (
    EXPERTS,
    Arrival,
    Hedge4,
    HedgeSettings,
    Job,
    Observation,
    half_brier,
    mixture_weights,
    replay,
)
from larc.errors import LarcError


def random_jobs(count, seed=0, repositories=1):
    chance = random.Random(seed)
    jobs = []
    for number in range(count):
        start = chance.randrange(count * 2)
        jobs.append(
            Job(
                repository=f"o/r{chance.randrange(repositories)}",
                workflow_id=chance.choice([None, 5, 6]),
                workflow_path=chance.choice([None, "ci.yml"]),
                workflow_name=None,
                event=chance.choice(["push", None]),
                job_name=chance.choice(["build", "test (linux)", "docs"]),
                head_sha=chance.choice(["aa", "bb", "cc"]),
                started_at=start,
                completed_at=start + chance.randrange(30),
                label=chance.choice([0, 0, 0, 1, 2, 3]),
                job_id=number,
                run_id=None,
                run_attempt=None,
            )
        )
    return jobs


def seen(**changes):
    fields = {
        "repository": "o/r",
        "workflow_id": 5,
        "workflow_path": None,
        "event": "push",
        "job_name": "build",
        "commit": "aa",
        "started_at": 1767312000,
    }
    return Observation(**(fields | changes))


def learn(hedge, observation, label):
    hedge.update([Arrival(observation, hedge.predict(observation), label)])


def test_half_brier_is_the_papers():
    assert half_brier((1.0, 0.0, 0.0, 0.0), 0) == 0.0
    assert half_brier((1.0, 0.0, 0.0, 0.0), 2) == 1.0
    expected = 0.5 * (0.6**2 + 0.3**2 + 0.2**2 + 0.1**2)
    assert half_brier((0.4, 0.3, 0.2, 0.1), 0) == pytest.approx(expected, abs=1e-15)


def test_the_experts_follow_their_definitions():
    hedge = Hedge4()
    learn(hedge, seen(), 1)
    learn(hedge, seen(commit="bb"), 3)
    prior, last, commit, _ = hedge.predict(seen()).experts
    assert prior == (1 / 6, 2 / 6, 1 / 6, 2 / 6)
    assert last == (0.1, 0.1, 0.1, 0.7)
    assert commit == (0.01, 0.97, 0.01, 0.01)
    # A job and a commit that were never seen fall back to the prior, a workflow to nothing known.
    forecast = hedge.predict(seen(job_name="docs"))
    assert forecast.experts[1] == forecast.experts[2] == prior
    assert hedge.predict(seen(commit="cc")).experts[2] == prior
    assert hedge.predict(seen(workflow_id=6)).experts[0] == (0.25,) * 4


def test_a_workflow_without_an_id_is_known_by_its_path():
    hedge = Hedge4()
    learn(hedge, seen(workflow_id=None, workflow_path="a.yml"), 1)
    known = hedge.predict(seen(workflow_id=None, workflow_path="a.yml"))
    other = hedge.predict(seen(workflow_id=None, workflow_path="b.yml"))
    assert known.experts[0] != other.experts[0] == (0.25,) * 4


def test_weights_agree_with_exponential_weights_at_zero_delay():
    """One round after another: multiply by exp(-loss) and normalize."""
    hedge = Hedge4()
    weights = np.full(len(EXPERTS), 1 / len(EXPERTS))
    for job in random_jobs(400):
        forecast = hedge.predict(job.observation)
        np.testing.assert_allclose(hedge.weights, weights, rtol=1e-9, atol=1e-300)
        np.testing.assert_allclose(
            forecast.mixture, weights @ np.array(forecast.experts), rtol=1e-9
        )
        outcome = np.eye(4)[job.label]
        losses = 0.5 * ((np.array(forecast.experts) - outcome) ** 2).sum(axis=1)
        weights = weights * np.exp(-losses)
        weights /= weights.sum()
        hedge.update([Arrival(job.observation, forecast, job.label)])


def test_delayed_feedback_is_weighed_by_what_was_said_when_asked():
    hedge = Hedge4()
    early = hedge.predict(seen())
    for _ in range(5):
        learn(hedge, seen(), 0)
    before = hedge.losses
    hedge.update([Arrival(seen(), early, 1)])
    added = [after - loss for after, loss in zip(hedge.losses, before, strict=True)]
    assert added == pytest.approx([0.375] * 4)


def test_the_logistic_expert_is_a_dense_logistic_regression():
    hedge = Hedge4()
    weights = np.zeros((1024, 4))

    def dense(observation):
        x = np.zeros(1024)
        x[hedge._hasher.indices(observation)] = 1
        return x / np.linalg.norm(x)

    def softmax(scores):
        exponents = np.exp(scores - scores.max())
        return exponents / exponents.sum()

    jobs = random_jobs(120)
    for start in range(0, 120, 3):
        batch = [
            Arrival(job.observation, hedge.predict(job.observation), job.label)
            for job in jobs[start : start + 3]
        ]
        gradient = np.zeros_like(weights)
        for arrival in batch:
            x = dense(arrival.observation)
            probabilities = softmax(x @ weights)
            np.testing.assert_allclose(arrival.forecast.experts[3], probabilities, rtol=1e-10)
            gradient += np.outer(x, probabilities - np.eye(4)[arrival.label]) / len(batch)
        weights -= 0.1 * (gradient + 1e-4 * weights)
        hedge.update(batch)
    np.testing.assert_allclose(hedge.state()["logistic"], weights, atol=1e-12)


def test_of_one_batch_the_later_identifier_is_the_last_label():
    hedge = Hedge4()
    forecast = hedge.predict(seen())
    hedge.update([Arrival(seen(), forecast, 2), Arrival(seen(), forecast, 1)])
    assert hedge.predict(seen()).experts[1][1] == 0.7


def test_maps_are_bounded_and_give_up_what_was_written_longest_ago():
    hedge = Hedge4(HedgeSettings(keys=2))
    learn(hedge, seen(job_name="a"), 1)
    learn(hedge, seen(job_name="b"), 1)
    learn(hedge, seen(job_name="a"), 1)
    for _ in range(3):
        hedge.predict(seen(job_name="b"))
    learn(hedge, seen(job_name="c"), 1)
    known = {name: hedge.predict(seen(job_name=name)).experts[1][1] == 0.7 for name in "abc"}
    assert known == {"a": True, "b": False, "c": True}
    assert len(hedge.state()["commit"]) == len(hedge.state()["last"]) == 2


def test_the_default_maps_hold_4096_keys():
    hedge = Hedge4()
    for number in range(4200):
        learn(hedge, seen(commit=f"{number:x}"), 0)
    state = hedge.state()
    assert len(state["commit"]) == 4096
    assert len(state["last"]) == len(state["prior"]) == 1


def test_a_wrong_label_changes_nothing():
    hedge = Hedge4()
    learn(hedge, seen(), 1)
    before = hedge.predict(seen())
    with pytest.raises(LarcError, match="label 4 is none of"):
        hedge.update([Arrival(seen(), before, 0), Arrival(seen(), before, 4)])
    assert hedge.predict(seen()) == before
    hedge.update([])
    assert hedge.predict(seen()) == before


def test_weights_survive_long_histories():
    assert mixture_weights([9000.0, 9001.0]) == pytest.approx((1 / (1 + math.exp(-1)), 0.26894142))


def through_json(state):
    weights = state.pop("logistic")
    return json.loads(json.dumps(state)) | {"logistic": weights}


def test_a_restored_state_goes_on_bit_for_bit():
    hedge = Hedge4(HedgeSettings(keys=4))
    jobs = random_jobs(200, repositories=2)
    for job in jobs[:100]:
        learn(hedge, job.observation, job.label)
    restored = Hedge4.from_state(through_json(hedge.state()))
    cold = Hedge4(HedgeSettings(keys=4))
    forecasts = []
    for job in jobs[100:]:
        forecasts.append(hedge.predict(job.observation))
        assert restored.predict(job.observation) == forecasts[-1]
        assert cold.predict(job.observation) != forecasts[-1]
        learn(hedge, job.observation, job.label)
        learn(restored, job.observation, job.label)
    assert len(set(forecasts)) > 50


def test_a_state_is_a_copy():
    hedge = Hedge4()
    learn(hedge, seen(), 1)
    state, before = hedge.state(), hedge.predict(seen())
    restored = Hedge4.from_state(state)
    state["logistic"][:] = 9.0
    assert hedge.predict(seen()) == restored.predict(seen()) == before


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"losses": [0.0]},
        {"logistic": np.zeros((3, 4))},
        {"last": [[["o/r", 5, "build"], 7]]},
        {"prior": [[["o/r", 5], [1, 2]]]},
        {"settings": {"unknown": 1}},
        {"commit": 3},
    ],
)
def test_a_damaged_state_is_refused(change):
    with pytest.raises(LarcError):
        Hedge4.from_state(Hedge4().state() | change)


@st.composite
def queues(draw):
    count = draw(st.integers(1, 25))
    jobs = []
    for number in range(count):
        start = draw(st.integers(1, 15))
        jobs.append(
            Job(
                repository=draw(st.sampled_from(["o/a", "o/b"])),
                workflow_id=draw(st.sampled_from([None, 5])),
                workflow_path=None,
                workflow_name=None,
                event="push",
                job_name=draw(st.sampled_from(["build", "test"])),
                head_sha=draw(st.sampled_from(["aa", "bb"])),
                started_at=start,
                completed_at=start + draw(st.integers(0, 6)),
                label=draw(st.integers(0, 3)),
                job_id=number,
                run_id=None,
                run_attempt=None,
            )
        )
    return jobs


@settings(deadline=None, max_examples=150)
@given(queues(), st.integers(1, 15), st.data())
def test_what_has_not_arrived_changes_no_prediction(jobs, now, data):
    """Everything after the predictions of time ``now`` is drawn anew; they must not notice."""
    changed = []
    for job in jobs:
        if job.completed_at < now:
            changed.append(job)
            continue
        if job.started_at > now and data.draw(st.booleans()):
            continue
        earliest = max(now, job.started_at)
        other = job._replace(
            label=data.draw(st.integers(0, 3)),
            completed_at=earliest + data.draw(st.integers(0, 20)),
        )
        if job.started_at > now:
            other = other._replace(
                job_name=data.draw(st.sampled_from(["build", "new"])),
                head_sha=data.draw(st.sampled_from(["aa", "dd"])),
            )
        changed.append(other)
    late = [
        job._replace(job_id=1000 + job.job_id, started_at=now + 1, completed_at=now + 2)
        for job in jobs
        if data.draw(st.booleans())
    ]
    before = {prediction.job.job_id: prediction.forecast for prediction in replay(jobs)}
    after = {
        prediction.job.job_id: prediction.forecast
        for prediction in replay(data.draw(st.permutations(changed)) + late)
    }
    for job in jobs:
        if job.started_at <= now:
            assert after[job.job_id] == before[job.job_id]


def test_what_has_arrived_does_change_predictions():
    first = Job("o/r", 5, None, None, None, "build", "aa", 1, 2, 0, 1, None, None)
    second = first._replace(job_id=2, started_at=3, completed_at=4)
    forecasts = [
        list(replay([first._replace(label=label), second]))[1].forecast for label in (0, 1)
    ]
    assert forecasts[0] != forecasts[1]


def test_a_label_of_the_same_second_comes_too_late():
    first = Job("o/r", 5, None, None, None, "build", "aa", 1, 3, 0, 1, None, None)
    second = first._replace(job_id=2, started_at=3, completed_at=4)
    assert list(replay([first, second]))[1].forecast.mixture == (0.25,) * 4
