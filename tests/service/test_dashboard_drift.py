"""The drift alarm: how soon, how often, once an episode, and what it says changed."""

import re

import httpx
import numpy as np
import pytest

from larc.service.dashboard.drift import FIRST, LONGEST, WINDOW, episodes


def drawn(kind, count, seed):
    generator = np.random.default_rng(seed)
    if kind == "normal":
        return generator.normal(0.3, 0.1, count)
    if kind == "falling":
        return generator.random(count) * (0.2 + 0.8 / np.sqrt(1 + np.arange(count)))
    return np.where(generator.random(count) < 0.1, 0.8, 0.02)


@pytest.mark.parametrize(("kind", "most"), [("normal", 1), ("falling", 1), ("skewed", 10)])
def test_losses_that_do_not_change_raise_few_alarms(kind, most):
    alarms = sum(len(episodes(drawn(kind, 2000, seed).tolist())) for seed in range(20))
    assert alarms <= most


@pytest.mark.parametrize("kind", ["normal", "skewed"])
def test_a_rise_is_noticed_once(kind):
    late = []
    for seed in range(10):
        losses = drawn(kind, 520, seed)
        losses[400:] += losses[:400].std()
        noticed = [one for one in episodes(losses.tolist()) if one.alarm >= 400]
        assert len(noticed) <= 1
        late += [one.alarm - 400 for one in noticed]
    assert len(late) >= 9
    assert np.median(late) < 45


def test_an_episode_ends_when_the_loss_is_back_or_usual():
    calm = [0.1, 0.2] * 100
    (back,) = episodes(calm + [0.6] * 20 + calm)
    assert back.end is not None
    assert back.end <= 220 + WINDOW
    (usual,) = episodes(calm + [0.6] * 2 * LONGEST)
    assert usual.end == usual.alarm + LONGEST
    # From the new level on, another rise is another episode.
    assert len(episodes(calm + [0.5, 0.6] * 200 + [0.95] * 60)) == 2


@pytest.mark.parametrize(
    "losses", [[], [0.5], [0.5] * 1000, [1.0] * FIRST, [0.0] * 50 + [0.01] * 50]
)
def test_nothing_to_say(losses):
    assert episodes(losses) == []


def test_a_stream_that_changes_is_told(sqlite_server):
    server = sqlite_server
    server.make("a", template="default")
    server.make("b", template="default")

    def label(first, last, text):
        for number in range(first, last):
            server.ask("a", f"q{number}")
            server.label("a", f"q{number}", text)

    label(0, 70, "up")
    label(70, 76, "down")
    with httpx.Client(base_url=server.address, follow_redirects=True) as person:
        person.post("/login", data={"token": server.token})
        page = person.get("/streams/a").text
        assert len(re.findall(r'role="alert"><b>Drift since', page)) == 1
        assert len(re.findall(r'<span class="badge bad">lasts', page)) == 1
        assert "label “down” 0\u00a0% → 100\u00a0% of labels" in page
        assert "loss of keep" in page
        assert person.get("/").text.count('<span class="badge bad">drift</span>') == 1
        assert "No alarm" in person.get("/streams/b").text
        label(76, 120, "down")
        page = person.get("/streams/a").text
        assert "Drift since" not in page
        assert page.count("over since") == 1
        assert "drift</span>" not in person.get("/").text
