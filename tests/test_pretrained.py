"""Slow states in the Hub's layout: given away, loaded elsewhere, refused where they do not fit."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import larc
from larc.pretrained import read_layout, write_layout
from larc.substrate.frozen import Substrate
from larc.substrate.tiny import byte_tokenizer, random_llama
from tests.questions import random_factors


@pytest.fixture
def slow(tiny):
    return larc.SlowState.initial(tiny, seed=5, boundary=2).advanced(random_factors(tiny, 1))


@pytest.fixture
def saved(slow, tmp_path):
    slow.save_pretrained(tmp_path / "slow")
    return tmp_path / "slow"


def test_a_state_is_given_away_whole(slow, saved, tiny):
    again = larc.SlowState.from_pretrained(saved, substrate=tiny)
    assert again.digest == slow.digest
    assert again.origin.equal(slow.origin)
    assert again.about == slow.about == larc.SlowState.from_pretrained(str(saved)).about
    with pytest.raises(larc.LarcError, match="exists already"):
        slow.save_pretrained(saved)


def test_another_substrate_is_refused_at_once_and_at_use(saved):
    other = Substrate("other", random_llama(seed=1), byte_tokenizer())
    with pytest.raises(larc.LarcError, match="belongs to substrate"):
        larc.SlowState.from_pretrained(saved, substrate=other)
    with pytest.raises(larc.LarcError, match="belongs to substrate"):
        larc.Learner(other, larc.SlowState.from_pretrained(saved))
    wider = Substrate("wider", random_llama(width=64), byte_tokenizer())
    with pytest.raises(larc.LarcError, match="width 32"):
        larc.SlowState.from_pretrained(saved, substrate=wider)


def test_one_of_several_states_is_chosen_by_its_seed(tiny, tmp_path):
    states = [larc.SlowState.initial(tiny, seed=seed) for seed in (3, 4)]
    write_layout(tmp_path, [(state.about, state.to_bytes()) for state in states])
    load = larc.SlowState.from_pretrained
    assert [load(tmp_path).seed, load(tmp_path, seed=3).seed, load(tmp_path, seed=4).seed] == [
        *(3, 3, 4)
    ]
    with pytest.raises(larc.LarcError, match="no state of seed 9; it has 3, 4"):
        load(tmp_path, seed=9)


def changed(saved, **values):
    config = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps({**config, **values}))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"version": 2}, "newer larc"),
        ({"version": "1"}, "describes no slow states"),
        ({"kind": "llama"}, "describes no slow states"),
        ({"states": []}, "names no state"),
        ({"states": 7}, "does not hold"),
        ({"states": [{}]}, "does not hold"),
    ],
)
def test_a_foreign_or_newer_config_is_one_sentence(saved, values, message):
    changed(saved, **values)
    with pytest.raises(larc.LarcError, match=message) as caught:
        larc.SlowState.from_pretrained(saved)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("file", ["../secret.safetensors", "/etc/passwd", "model.bin", ".."])
def test_a_config_cannot_name_a_file_elsewhere(saved, file):
    (saved.parent / "secret.safetensors").write_bytes(b"")
    states = json.loads((saved / "config.json").read_text())["states"]
    changed(saved, states=[{**states[0], "file": file}])
    with pytest.raises(larc.LarcError, match="lies elsewhere or is no state"):
        larc.SlowState.from_pretrained(saved)


def test_a_config_that_says_something_else_of_its_state_is_refused(saved):
    states = json.loads((saved / "config.json").read_text())["states"]
    changed(saved, states=[{**states[0], "about": {**states[0]["about"], "boundary": 0}}])
    with pytest.raises(larc.LarcError, match="not the state that its config describes"):
        larc.SlowState.from_pretrained(saved)
    (saved / "model.safetensors").write_bytes(b"other")
    with pytest.raises(larc.LarcError, match=r"not the file that config\.json names"):
        larc.SlowState.from_pretrained(saved)


@pytest.fixture
def hub(saved, tmp_path, monkeypatch):
    """The part of the Hub's protocol that a download needs, on this machine."""
    commit = "c0ffee" + 34 * "0"

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_HEAD(self):
            self.do_GET()

        def do_GET(self):
            route = self.path.split("?")[0]
            files = sorted(path.name for path in saved.iterdir())
            info = {"id": "o/slow", "sha": commit, "siblings": [{"rfilename": f} for f in files]}
            name = route.removeprefix(f"/o/slow/resolve/{commit}/")
            tree = [
                {"type": "file", "path": f, "size": (saved / f).stat().st_size, "oid": f}
                for f in files
            ]
            if route.startswith("/api/models/o/slow"):
                body = json.dumps(tree if "/tree/" in route else info).encode()
            elif name in files:
                body = (saved / name).read_bytes()
            else:
                self.send_response(404)
                self.send_header("X-Error-Code", "RepoNotFound")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", f'"{len(body)}-{name}"')
            self.send_header("X-Repo-Commit", commit)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
    template = address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    yield
    server.shutdown()
    server.server_close()


def test_a_state_comes_from_a_repository_of_the_hub(hub, slow, tiny):
    again = larc.SlowState.from_pretrained("o/slow", substrate=tiny)
    assert again.digest == slow.digest
    with pytest.raises(larc.LarcError, match="could not be had from the Hub") as caught:
        larc.SlowState.from_pretrained("o/nothing")
    assert "\n" not in str(caught.value)
    with pytest.raises(larc.LarcError, match="could not be had from the Hub"):
        larc.SlowState.from_pretrained("no/such/place")


def test_only_hub_ids_have_revisions(saved):
    with pytest.raises(larc.LarcError, match="only hub ids"):
        read_layout(saved, revision="main")
