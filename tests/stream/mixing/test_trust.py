import pytest

from larc.stream.mixing.forecaster import Forecaster, ForecasterSettings
from tests.stream.mixing.forecasts import names_of, play, skilled


def test_it_reports_whom_it_trusted_when_and_why():
    questions = skilled(seed=9, count=900, predictors=3, period=450, delay=10)
    forecaster = Forecaster(names_of(questions))
    played = play(forecaster, questions)
    trust = forecaster.report()
    forecasts = [forecast for forecast, _ in played.forecasts.values()]
    for name, standing in trust.standings.items():
        assert standing.asked == standing.labels == 900
        assert standing.mean_weight == pytest.approx(
            sum(forecast.weights[name] for forecast in forecasts) / 900
        )
        assert standing.led == sum(
            max(forecast.weights, key=forecast.weights.get) == name for forecast in forecasts
        )
        assert standing.regret == pytest.approx(forecaster.regrets()[name])
        assert standing.regret == pytest.approx(sum(played.forecaster_losses) - standing.loss)
    assert sum(standing.led for standing in trust.standings.values()) == 900
    # The turn that lasts comes some time after the better one became the worse.
    last = trust.turns[-1]
    assert 450 < last.labels < 700
    assert last.asked > last.labels
    assert last.gain > 1
    assert last.weight > 1 / 3
    assert [turn.before for turn in trust.turns[1:]] == [turn.after for turn in trust.turns[:-1]]


def test_a_predictor_that_did_not_answer_is_not_judged_on_it():
    forecaster = Forecaster(["a", "b"], ForecasterSettings(contexts=0))
    forecaster.predict("q", {"a": [1, 0], "b": [0, 1]})
    forecaster.predict("r", {"a": [1, 0]})
    forecaster.learn([("q", 1), ("r", 1)])
    standings = forecaster.report().standings
    assert (standings["a"].labels, standings["b"].labels) == (2, 1)
    assert standings["a"].loss == pytest.approx(2)
    assert standings["b"].loss == pytest.approx(0)
    assert standings["b"].mean_weight == pytest.approx(0.5)


def test_nobody_is_trusted_before_there_is_evidence():
    trust = Forecaster(["a", "b"]).report()
    assert trust.turns == ()
    assert trust.standings["a"].mean_weight == 0


def test_turns_are_of_the_weights_that_answer():
    """Each context has a best predictor of its own, and its leader is whom its answers rest on."""
    questions = skilled(seed=3, count=600, contexts=3, delay=0, predictors=4)
    forecaster = Forecaster(names_of(questions))
    # Without delay there is no guard against late labels, so weights used are weights learned.
    leaders = {}
    agreed = asked = 0
    played = play(forecaster, questions)
    turns = list(forecaster.report().turns)
    contexts = {question.name: question.context for question in questions}
    for number, (name, (forecast, _)) in enumerate(played.forecasts.items()):
        context = contexts[name]
        while turns and turns[0].asked <= number:
            leaders[turns[0].context] = turns[0].after
            turns.pop(0)
        if context in leaders:
            asked += 1
            agreed += max(forecast.weights, key=forecast.weights.get) == leaders[context]
    assert asked > 350
    assert agreed > 0.95 * asked  # belief also moves with labels of other contexts
    assert len({turn.context for turn in forecaster.report().turns}) > 1


def test_a_saved_state_of_before_turns_had_contexts_is_still_read():
    forecaster = Forecaster(["a", "b"])
    forecaster.predict("q", {"a": [1, 0], "b": [0, 1]})
    forecaster.learn([("q", 1)])
    (turn,) = forecaster.report().turns
    old = forecaster.state()
    trust = old["trust"]
    earlier = [{k: v for k, v in one.items() if k != "context"} for one in trust["turns"]]
    settings = {k: v for k, v in old["settings"].items() if k != "sleep"} | {"naps": None}
    old = {
        **old,
        "settings": settings,
        "format": 1,
        "trust": {"sums": [*trust["sums"], [0, 0]], "asked": 1, "labels": 1, "leader": 1}
        | {"turns": earlier},
    }
    assert Forecaster.from_state(old).report() == forecaster.report()
    assert turn.after == "b"
