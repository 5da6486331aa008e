"""Templates choose a model and a slow state by name, of those the service was started with."""

import json

import pytest

import larc
from larc.errors import LarcError
from larc.io.files import atomic_write
from larc.service.starts import given_states, load_models
from larc.service.templates import Models, Start
from tests.service.test_streams import learned


@pytest.fixture(scope="module")
def another():
    """A second frozen model: the built-in one, acted on at a weight instead."""
    return larc.load_substrate("tiny", acts_on="self_attn.o_proj")


@pytest.fixture
def several(tiny, another):
    return Models(
        [
            Start(tiny, larc.SlowState.initial(tiny, seed=1, boundary=2), "tiny", "first"),
            Start(tiny, larc.SlowState.initial(tiny, seed=2, boundary=1), "tiny", "second"),
            Start(another, larc.SlowState.initial(another, seed=3, boundary=2), "other", "third"),
        ]
    )


def put(server, name, **spec):
    return server.http.put(f"/v1/templates/{name}", json=spec)


def test_streams_start_from_what_their_template_names(start, several, database):
    """Three streams in one service learn as three sessions of their own models would."""
    server = start(database, models=several)
    specs = {"a": {}, "b": {"slow_state": "second"}, "c": {"model": "other"}}
    for name, spec in specs.items():
        kept = put(server, name, experts=[], sleep=False, **spec)
        assert kept.status_code == 201
        assert server.make(f"{name}.s", template=name).status_code == 201
    questions = [
        {"stream": f"{name}.s", "id": "q", "prompt": "Next: ", "candidates": ["up", "down"]}
        for name in specs
    ]
    batch = server.http.post("/v1/questions:batch", json={"questions": questions})
    assert [one["status"] for one in batch.json()["answers"]] == [201] * 3  # in one round
    for name in specs:
        assert server.label(f"{name}.s", "q", 0).status_code == 200
    after = [server.ask(f"{name}.s", "r").json()["said"]["keep"] for name in specs]
    for answer, one in zip(after, several.starts, strict=True):
        learner = larc.Learner(one.substrate, one.slow)
        session = larc.Session(learner, [larc.Strategy("keep")], seed=1)
        session.ask([larc.Question("q", ("up", "down"), prompt="Next: ")])
        session.learn({"q": 0})
        alone = session.ask([larc.Question("r", ("up", "down"), prompt="Next: ")])
        assert answer == pytest.approx(list(alone["keep"][0]), abs=1e-5)
    assert len({tuple(answer) for answer in after}) == 3


def test_a_template_shows_what_it_is_bound_to(start, several):
    server = start(models=several)
    kept = put(server, "t", model="other").json()
    assert kept["spec"]["model"] == "other"
    assert kept["slow"] == several.starts[2].slow.digest
    assert server.http.get("/v1/templates/t").json() == kept
    assert server.http.get("/v1/templates/default").json()["slow"] == several.starts[0].slow.digest
    assert server.http.get("/v1/templates/missing").status_code == 404


def test_only_what_the_service_was_started_with_can_be_named(start, several, tmp_path):
    server = start(models=several)
    file = tmp_path / "state"
    atomic_write(file, several.starts[0].slow.to_bytes())
    for spec in (
        {"model": "gpt2"},
        {"slow_state": "fourth"},
        {"model": "other", "slow_state": "first"},
        {"slow_state": str(file)},
        {"model": "/etc/passwd"},
    ):
        refused = put(server, "t", **spec)
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid"), spec
        assert "first" in refused.json()["detail"]


def test_a_template_never_changes_though_the_service_does(start, several, tiny):
    """Another state under the same name: old streams and the template say so, and learn nothing."""
    server = start(models=several)
    put(server, "t", slow_state="second")
    server.make("s", template="t")
    learned(server, "s", 2)
    before = server.status("s")
    server.stop()
    changed = list(several.starts)
    slow = larc.SlowState.initial(tiny, seed=9, boundary=1)
    changed[1] = Start(tiny, slow, "tiny", "second")
    server = start(models=Models(changed))
    assert put(server, "t", slow_state="second").status_code == 409
    refused = server.make("new", template="t")
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid")
    reply = server.http.post("/v1/completions", json={"model": "larc:s", "prompt": "x"})
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "damaged")
    assert server.status("s") == before
    server.stop()
    server = start(models=several)
    learned(server, "s", 1, first=5)
    assert server.status("s")["labelled"] == 3


def test_generation_is_of_the_streams_own_model(start, several):
    server = start(models=several)
    put(server, "t", model="other")
    server.make("s", template="t")
    body = {"model": "larc:s", "prompt": "hello", "max_tokens": 2, "temperature": 0}
    reply = server.http.post("/v1/completions", json=body).json()
    assert several.starts[2].slow.digest[:12] in reply["system_fingerprint"]


def test_the_command_line_names_models_and_states(processes, tmp_path, tiny):
    slow = larc.SlowState.initial(tiny, seed=7, boundary=1)
    atomic_write(tmp_path / "trained.state", slow.to_bytes())
    options = ["--state", str(tmp_path / "trained.state"), "--state", f"b={tmp_path}/trained.state"]
    server = processes("data", *options).start()
    default = server.http.get("/v1/templates/default").json()
    assert default["slow"] == slow.digest
    for name in ("trained", "b"):
        assert put(server, name, slow_state=name).json()["slow"] == slow.digest
    other = put(server, "u", model="tiny", slow_state="untrained").json()
    assert other["slow"] != slow.digest
    assert json.loads(server.make("s", template="u").text)["template"] == "u"


def test_states_of_no_model_and_names_twice_are_refused(tmp_path, tiny, another):
    file = tmp_path / "state"
    atomic_write(file, larc.SlowState.initial(tiny, seed=7).to_bytes())
    foreign = tmp_path / "foreign"
    atomic_write(foreign, larc.SlowState.initial(another, seed=7, boundary=1).to_bytes())
    for substrates, states, message in (
        (["tiny", "tiny"], [], "twice"),
        (["tiny"], [str(file), f"state={file}"], "already"),
        (["tiny"], [f"untrained={file}"], "already"),
        (["tiny"], [f"no name={file}"], "NAME=STATE"),
        (["tiny"], [str(foreign)], "use a state made on this substrate"),
    ):
        with pytest.raises(LarcError, match=message):
            load_models(substrates, given_states(states))
    models = load_models(["tiny"], given_states([f"a={file}"]))
    assert [one.state for one in models.starts] == ["a", "untrained"]
