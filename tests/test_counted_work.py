"""What reference jobs cost in exact numbers: calls and padded positions, by kind of work.

Times depend on the machine and are for benchmarks; these do not. More than a tenth over a number
here is a regression. Fewer is an improvement, and is written down, so that it is kept.
"""

import dataclasses

import pytest

import larc
from larc.domains.programs import build_episodes, split_groups, to_task
from larc.stream import Ask, Question, Recorded, Strategy, order_events
from larc.stream.question import labels_of, questions_of
from larc.stream.session import Session

KINDS = ("below", "mixer", "head", "backward")


def group(*, opened):
    """The four episodes of one group: one prompt, four targets."""
    return [to_task(e, with_query=opened) for e in build_episodes(split_groups("training")[:1])]


def outer_update(substrate, objective, boundary):
    larc.train(
        substrate, group(opened=True), objective=objective, boundary=boundary, updates=1, seed=1
    )


def group_prediction(substrate, boundary, rule=None):
    slow = larc.SlowState.initial(substrate, seed=1, boundary=boundary)
    larc.predict(substrate, slow, group(opened=False), seed=1, rule=rule)


def replay(substrate):
    """Twelve jobs in three batches, late labels; strategies: reset, carry, a tenth."""
    jobs = [
        Recorded(
            Question(f"{n:02}", ("pass", "fail"), f"job {n}: "),
            asked=n // 4,
            arrives=n // 4 + 2,
            label=n % 2,
        )
        for n in range(12)
    ]
    strategies = [
        Strategy("reset", retention="reset"),
        Strategy("carry"),
        Strategy("tenth", scale=0.1),
    ]
    slow = larc.SlowState.initial(substrate, seed=1, boundary=2)
    session = Session(larc.Learner(substrate, slow), strategies, seed=1)
    for event in order_events(
        jobs,
        asked=lambda job: job.asked,
        arrives=lambda job: job.arrives,
        identifier=lambda job: job.name,
    ):
        if isinstance(event, Ask):
            session.ask(questions_of(event.items))
        else:
            session.learn(labels_of(event.items))


def stream_window(substrate, gradient):
    """One update through windows of eight streams; labels two questions later, two at a time."""
    streams = [
        [
            Recorded(
                Question(f"{stream}-{n}", ("pass", "fail"), f"job {n} of {'it' * stream}: "),
                asked=n // 2,
                arrives=n // 2 + 1.5,
                label=(stream + n) % 2,
            )
            for n in range(8)
        ]
        for stream in range(8)
    ]
    larc.train_streams(
        substrate, streams, gradient=gradient, boundary=2, window=8, batch=8, updates=1, seed=1
    )


JOBS = {
    "outer update, static, input": lambda s: outer_update(s, "static", 0),
    "outer update, adapted, input": lambda s: outer_update(s, "adapted", 0),
    "outer update, adapted, before layer 2": lambda s: outer_update(s, "adapted", 2),
    "group prediction, input": lambda s: group_prediction(s, 0),
    "group prediction, before layer 2": lambda s: group_prediction(s, 2),
    "group prediction, descending": lambda s: group_prediction(s, 2, larc.Descent(1.0, steps=2)),
    "replay of twelve jobs, three paths": replay,
    "window of eight streams, first-order": lambda s: stream_window(s, "first-order"),
    "window of eight streams, exact": lambda s: stream_window(s, "exact"),
}
# Calls and padded positions of each kind. A group's four targets, real and sham, share their first
# support forward (1 row); then 8 rows step, and 8 kept reads and 1 reset are the query: 18 rows.
EXPECTED = {
    "outer update, static, input": {"mixer": (2, 903), "head": (2, 231), "backward": (5, 0)},
    "outer update, adapted, input": {"mixer": (3, 1505), "head": (3, 385), "backward": (4, 0)},
    "outer update, adapted, before layer 2": {
        "below": (1, 301),
        "mixer": (3, 1505),
        "head": (3, 385),
        "backward": (4, 0),
    },
    "group prediction, input": {"mixer": (5, 18 * 301), "head": (5, 1386), "backward": (6, 0)},
    "group prediction, before layer 2": {
        "below": (1, 301),
        "mixer": (5, 18 * 301),
        "head": (5, 1386),
        "backward": (6, 0),
    },
    "group prediction, descending": {
        "below": (1, 301),
        "mixer": (18, 63 * 301),
        "head": (18, 4851),
        "backward": (14, 0),
    },
    "replay of twelve jobs, three paths": {
        "below": (12, 182),
        "mixer": (6, 860),
        "head": (6, 504),
        "backward": (4, 0),
    },
    # Three rounds: 4, 2 and 2 questions, then 2 labels, 2 and none. Each prompt is read below once,
    # and in the first round its two labels share rows with their questions. The exact gradient
    # makes both updates again.
    "window of eight streams, first-order": {
        "below": (64, 1664),
        "mixer": (12, 2260),
        "head": (12, 720),
        "backward": (15, 0),
    },
    "window of eight streams, exact": {
        "below": (64, 1664),
        "mixer": (18, 3164),
        "head": (18, 1008),
        "backward": (17, 0),
    },
}


@pytest.mark.parametrize("job", JOBS)
def test_a_reference_job_costs_what_it_cost(job):
    substrate = larc.load_substrate("tiny")
    JOBS[job](substrate)
    counted = {}
    for kind in KINDS:
        entry = dataclasses.astuple(substrate.ledger.total(kind))[:2]
        if entry[0]:
            counted[kind] = entry
    expected = EXPECTED[job]
    assert set(counted) == set(expected)
    for kind, numbers in expected.items():
        for was, now in zip(numbers, counted[kind], strict=True):
            assert now <= 1.1 * was, f"{job}: {kind} takes {counted[kind]}, it took {numbers}"
            assert now >= was, f"{job}: {kind} takes only {counted[kind]}; write that down"
