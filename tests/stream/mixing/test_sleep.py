from itertools import pairwise

import numpy as np

from larc.stream.mixing.forecaster import Forecaster, ForecasterSettings
from larc.stream.mixing.sleep import SleepSchedule, SleepSettings
from tests.stream.mixing.forecasts import names_of, play, skilled

SLEEP = SleepSettings(floor=0.02, term=20, first=30, longest=240)


def follow(questions, sleep=SLEEP, free=()):
    """Return the forecaster, and who answered each question."""
    forecaster = Forecaster(names_of(questions), ForecasterSettings(sleep=sleep), free=free)
    played = play(forecaster, questions, obey=True)
    return forecaster, [set(given) for _, given in played.forecasts.values()], played


def test_those_ruled_out_cost_little_and_the_best_answers_always():
    questions = skilled(seed=4, count=800)
    forecaster, answered, _ = follow(questions)
    counts = {name: sum(name in who for who in answered) for name in forecaster.names}
    assert max(counts.values()) == 800
    assert sorted(counts.values())[-2] < 400
    # They are still tried from time to time: late, and not only early.
    tried = {name: max(n for n, who in enumerate(answered) if name in who) for name in counts}
    assert min(tried.values()) > 400


def test_one_that_becomes_the_best_comes_back():
    questions = skilled(seed=4, count=1200, period=600, delay=5)
    forecaster, answered, played = follow(questions)
    first, second = (
        max(forecaster.names, key=lambda name: played.forecasts[at][0].weights.get(name, 0))
        for at in ("000599", "001199")
    )
    assert first != second
    asleep = [second not in who for who in answered[:600]]
    assert sum(asleep) > 300
    assert all(second in who for who in answered[900:])
    assert any(turn.after == second for turn in forecaster.report().turns)


def test_the_free_never_sleep_and_no_sleep_means_none():
    questions = skilled(seed=4, count=400)
    forecaster, answered, _ = follow(questions, free=["p0", "p1"])
    assert all({"p0", "p1"} <= who for who in answered)
    assert any(len(who) < len(forecaster.names) for who in answered)
    _, answered, _ = follow(questions, sleep=None)
    assert all(len(who) == len(forecaster.names) for who in answered)


def serve(schedule, weights, gains, labels, peaks=(0.0, 0.0)):
    """Return the spans of labels, first and last, that the second predictor slept through."""
    spans, start = [], None
    for _ in range(labels):
        up = schedule.awake * 1.0
        schedule.learn(up, up * weights, up * gains, lambda: np.array(peaks))
        if not schedule.awake[1] and start is None:
            start = schedule.labels
        elif schedule.awake[1] and start is not None:
            spans.append((start, schedule.labels))
            start = None
    return spans


def test_each_nap_is_twice_as_long_up_to_the_longest():
    spans = serve(SleepSchedule(2, SleepSettings(0.1, 4, 8, 20), []), [1.0, 0.0], [0.0, -1.0], 100)
    assert [end - begin for begin, end in spans] == [8, 16, 20, 20]
    assert [after[0] - before[1] for before, after in pairwise(spans)] == [4, 4, 4]


def test_evidence_for_it_keeps_a_predictor_awake():
    for weights, gains, peaks in (
        ([0.9, 0.1], [0.0, -1.0], (0.0, 0.0)),  # it is trusted
        ([1.0, 0.0], [0.0, 0.1], (0.0, 0.0)),  # it is not trusted yet, but better
        ([1.0, 0.0], [0.0, -1.0], (0.0, 0.5)),  # it is trusted in some context
    ):
        assert (
            serve(SleepSchedule(2, SleepSettings(0.1, 4, 8, 20), []), weights, gains, 40, peaks)
            == []
        )


def test_the_last_one_awake_stays():
    schedule = SleepSchedule(2, SleepSettings(0.1, 2, 50, 50), [])
    serve(schedule, [0.0, 0.0], [-1.0, -1.0], 30)
    assert schedule.awake.sum() == 1


def test_a_context_of_its_own_keeps_a_predictor_awake():
    """Nine questions in ten suit one predictor; the tenth is of a context where another is best."""
    questions = skilled(seed=6, count=800, predictors=3)
    forecaster, _, _ = follow(questions)
    best = max(forecaster.names, key=lambda name: forecaster.report().standings[name].led)
    other = next(name for name in forecaster.names if name != best)
    for question in questions[::10]:
        known = np.full(4, 0.02)
        known[question.label] = 0.94
        question.context = "rare"
        question.predictions = dict.fromkeys(forecaster.names, np.full(4, 0.25)) | {other: known}
    sleep = SleepSettings(floor=0.15, term=30, first=60)
    for contexts, always in ((8, True), (0, False)):
        chosen = ForecasterSettings(contexts=contexts, sleep=sleep)
        played = play(Forecaster(forecaster.names, chosen), questions, obey=True)
        late = [given for name, (_, given) in played.forecasts.items() if name > "000500"]
        assert all(other in given for given in late) is always
