"""Ctrl-C stops every long command: one SIGINT, exit code 130, one line, and no traceback.

Processes are real, and too much is asked of them for any machine to finish before the signal
comes; how long they take to hear it is not measured, only that they do.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest

import larc
import larc.exporting
from larc import progress
from larc.cli import main
from larc.progress import Display, check_interrupted, counting, interruptible, tracked
from larc.runs import archive, verify
from larc.runs.stopping import stoppable
from larc.runs.units import Checkpoint
from tests.runs.test_interrupts import LARC, ctrl_c, hears_ctrl_c, wait_for  # noqa: F401

SEEDS = ",".join(str(seed) for seed in range(1000))
SMOKE = ("--preset", "smoke", "--seeds", SEEDS, "--out", "run")
STUDIES = {
    "programs": ("study", "programs", *SMOKE),
    "synthesis": ("study", "synthesis", *SMOKE),
    "ci": ("study", "ci", *SMOKE),
    "stream": ("study", "stream", *SMOKE),
    "streams": ("study", "streams", *SMOKE),
}


def started(command, folder, **environment):
    return subprocess.Popen(
        [*LARC, *command],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=hears_ctrl_c,
        env={**os.environ, "PYTHONPATH": str(Path(larc.__file__).parents[1]), **environment},
    )


def stopped(process):
    """Press Ctrl-C once, and return what was told."""
    try:
        os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate(timeout=600)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130, told
    assert "Traceback" not in told
    assert told.splitlines()[-1].startswith("larc: interrupted; ")
    return told


@pytest.mark.parametrize("kind", STUDIES)
def test_a_study_of_every_kind(kind, tmp_path):
    process = started(STUDIES[kind], tmp_path)
    units = tmp_path / "run" / "units"
    wait_for(lambda: units.exists() and any(units.iterdir()), process)
    assert "the same command goes on from there" in stopped(process)
    assert not (tmp_path / "run" / "manifest.json").exists()


def test_a_benchmark(tmp_path):
    command = ("bench", "--substrate", "tiny", "--only", "reads", "--repetitions", "1000000000")
    process = started(command, tmp_path)
    assert process.stderr.readline()  # the section that is under way
    stopped(process)


def test_an_adapter(tmp_path):
    pytest.importorskip("peft")
    command = ("adapter", "--substrate", "tiny", "--out", "a", "--updates", "1000000000")
    process = started(command, tmp_path)
    wait_for(lambda: any(tmp_path.iterdir()), process)
    assert "nothing was kept" in stopped(process)
    assert not any(tmp_path.iterdir())


def test_an_interrupt_within_an_exec_ends_with_the_same_code(tmp_path):
    """As when a dataclass is being imported: CPython then would end `-m` by the signal."""
    (tmp_path / "peft").mkdir()
    pressed = "import signal\nexec('signal.raise_signal(signal.SIGINT)')\n"
    (tmp_path / "peft/__init__.py").write_text(pressed)
    path = f"{tmp_path}{os.pathsep}{Path(larc.__file__).parents[1]}"
    command = ("adapter", "--substrate", "tiny", "--out", "a")
    process = started(command, tmp_path, PYTHONPATH=path)
    _, told = process.communicate(timeout=600)
    assert told.splitlines()[-1].startswith("larc: interrupted; nothing was kept")
    assert process.returncode == 130


@pytest.fixture
def silent_server():
    """An address that takes connections and never answers; gives it, and what says if it did."""
    asked = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept = []

        def accept():
            while True:
                try:
                    kept.append(server.accept()[0])
                except OSError:
                    return
                asked.set()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", asked
        server.shutdown(socket.SHUT_RDWR)
    for connection in kept:
        connection.close()


def test_a_fetch_of_a_model_and_one_of_jobs(silent_server, tmp_path):
    url, asked = silent_server
    jobs = ("ci", "fetch", "o/r", "--since", "2026-01-05", "--until", "2026-01-07")
    for command in (("fetch", "stories15m"), (*jobs, "--base-url", url, "--out", "jobs.jsonl")):
        asked.clear()
        cache = {"LARC_CACHE": str(tmp_path / "cache"), "HF_HOME": str(tmp_path / "hub")}
        process = started(command, tmp_path, HF_ENDPOINT=url, **cache)
        wait_for(asked.is_set, process)
        stopped(process)
    assert not list(tmp_path.glob("cache/*"))


def test_the_service(tmp_path):
    pytest.importorskip("uvicorn")
    command = ("serve", "--data", "data", "--substrate", "tiny", "--port", "0")
    process = started((*command, "--token-file", "token"), tmp_path)
    wait_for((tmp_path / "token").exists, process)
    assert process.stdout.readline()
    stopped(process)


# In this process: what is over in a second, with the signal in the middle of it ----------------


def pressing(monkeypatch, owner, name):
    """Press Ctrl-C whenever a function is called."""
    function = getattr(owner, name)

    def press(*arguments, **named):
        signal.raise_signal(signal.SIGINT)
        return function(*arguments, **named)

    monkeypatch.setattr(owner, name, press)


@pytest.mark.usefixtures("ctrl_c")
def test_what_follows_a_finished_run_and_what_writes_one_file(tmp_path, monkeypatch, capsys):
    run, small = tmp_path / "ci", ("--preset", "smoke", "--seeds", "7", "--train", "6")
    assert main(["study", "ci", *small, "--audit", "20", "--out", str(run)]) == 0
    substrate = larc.load_substrate("tiny")
    state = tmp_path / "state.safetensors"
    state.write_bytes(larc.SlowState.initial(substrate, seed=1).to_bytes())
    about = ("--run", str(run), "--out")
    exported = ("--to", "merged", "--substrate", "tiny", "--out", str(tmp_path / "e"))
    events = (Checkpoint, "due")
    commands = {
        ("study", "controller", *about, str(tmp_path / "c")): events,
        ("study", "prefix", *about, str(tmp_path / "p"), "--prefix", "90%"): events,
        ("pack", str(run)): (archive, "pack"),
        ("verify", str(run)): (verify, "_check_files"),
        ("export", str(state), *exported): (larc.exporting, "export_state"),
    }
    for command, place in commands.items():
        with monkeypatch.context() as patched:
            pressing(patched, *place)
            assert main(list(command)) == 130, command
        assert capsys.readouterr().err.splitlines()[-1].startswith("larc: interrupted; ")
    assert not (tmp_path / "ci.larc").exists()
    assert not (tmp_path / "e").exists()
    for command in commands:  # and then it goes on
        assert main(list(command)) == 0


# What a library swallows -------------------------------------------------------------------------


def swallowed():
    """Press Ctrl-C where the interpreter can only say that it ignores the exception."""

    class Held:
        pass

    held = Held()
    reference = weakref.ref(held, lambda _: signal.raise_signal(signal.SIGINT))
    del held
    return reference


@pytest.mark.usefixtures("ctrl_c")
def test_a_swallowed_interrupt_is_heard_where_progress_is_told(monkeypatch):
    ignored = []
    monkeypatch.setattr(sys, "unraisablehook", lambda one: ignored.append(one.exc_type))

    def told(tell):
        with interruptible():
            swallowed()
            with pytest.raises(KeyboardInterrupt):
                tell()
        check_interrupted()  # of another command nothing was pressed

    told(lambda: Display(silent=True).update(1))
    with tracked("x", 2) as update:
        told(lambda: update(1, 0.5))
    with counting() as tell:
        told(lambda: tell("x", 1, 2, ""))
    assert ignored == [KeyboardInterrupt] * 3
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("ctrl_c")
def test_inside_a_command_a_step_is_finished_first_and_a_second_press_stops_at_once():
    with interruptible():
        with stoppable() as heard:
            signal.raise_signal(signal.SIGINT)
            assert heard()
            Display(silent=True).update(1)  # the step goes on to where it is saved
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is progress.interrupt
