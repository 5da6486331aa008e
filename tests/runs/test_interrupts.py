"""Ctrl-C, as a terminal sends it: a real SIGINT to a real process and all its children."""

import os
import shlex
import signal
import subprocess
import sys
import time

import pytest

from larc.cli import main
from larc.runs.run import Run
from larc.runs.settings import Execution
from larc.studies.programs import adapter
from larc.studies.registry import STUDIES, settings_of
from larc.studies.running import run_study

LARC = [sys.executable, "-m", "larc.cli"]
STUDY = [
    *("study", "programs", "--preset", "smoke", "--objectives", "adapted", "--seeds", "7"),
    *("--untrained", "no", "--updates", "32", "--batch", "1", "--resamples", "50"),
    *("--training-groups", "1", "--development-groups", "1", "--out"),
]
SLOW = "units/train-adapted-7/slow.safetensors"


def hears_ctrl_c():
    """Undo in a child that a background job of a shell ignores Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def ctrl_c():
    """Let this process hear Ctrl-C, whatever it was started by."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def wait_for(condition, process, seconds=300):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "it never came"
        time.sleep(0.005)


def test_a_study_saves_where_it_is_says_how_to_go_on_and_ends_as_if_never_stopped(tmp_path, capsys):
    stopped, straight = tmp_path / "stopped", tmp_path / "straight"
    checkpoint = stopped / "units/train-adapted-7/checkpoint.safetensors"
    process = subprocess.Popen(
        [*LARC, *STUDY, str(stopped)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=hears_ctrl_c,
    )
    wait_for(checkpoint.exists, process)
    at = time.time_ns()
    os.killpg(process.pid, signal.SIGINT)
    output, told = process.communicate(timeout=300)
    assert process.returncode == 130
    assert output == ""
    again = shlex.join(["larc", *STUDY, str(stopped)])
    kept = "what was saved is kept; the same command goes on from there"
    assert told == f"larc: interrupted; {kept}: {again}\n"
    # Saved at that moment, not merely some updates earlier.
    assert checkpoint.stat().st_mtime_ns >= at
    assert not (stopped / SLOW).exists()
    assert main([*STUDY, str(stopped)]) == 0
    assert not checkpoint.exists()
    run_study(STUDIES["programs"], settings_of(Run(stopped)), straight, Execution())
    assert (stopped / SLOW).read_bytes() == (straight / SLOW).read_bytes()
    for name in ("curve.json", "ledger.json"):
        unit = "units/train-adapted-7"
        assert (stopped / unit / name).read_bytes() == (straight / unit / name).read_bytes()


@pytest.mark.parametrize("to_all", [True, False])
def test_workers_are_stopped_with_their_parent_and_say_nothing(to_all, tmp_path):
    (tmp_path / "units.py").write_text(
        "import os, sys, time\n"
        "from larc.runs.engines import perform_all\n"
        "def unit(seconds):\n"
        "    print(os.getpid(), flush=True)\n"
        "    time.sleep(seconds)\n"
        "    return {}\n"
        "if __name__ == '__main__':\n"
        "    try:\n"
        "        list(perform_all(unit, [600, 600, 600], workers=2))\n"
        "    except KeyboardInterrupt:\n"
        "        sys.exit(130)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "units.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=hears_ctrl_c,
    )
    workers = [int(process.stdout.readline()) for _ in range(2)]
    (os.killpg if to_all else os.kill)(process.pid, signal.SIGINT)
    output, told = process.communicate(timeout=60)
    assert (process.returncode, output, told) == (130, "", "")
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)


def test_an_adapter_says_that_it_starts_anew_and_leaves_nothing(
    tmp_path, capsys, monkeypatch, ctrl_c
):
    pytest.importorskip("peft")
    out = tmp_path / "adapter"

    loss, calls = adapter._batch_loss, []

    def pressed(*arguments):
        calls.append(1)
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return loss(*arguments)

    monkeypatch.setattr(adapter, "_batch_loss", pressed)
    line = ["adapter", "--substrate", "tiny", "--out", str(out), "--updates", "1000000"]
    assert main(line) == 130
    assert len(calls) == 2  # the update that was being made is the last
    told = capsys.readouterr().err
    assert told.endswith(
        f"larc: interrupted; nothing was kept; the same command starts anew: "
        f"{shlex.join(['larc', *line])}\n"
    )
    assert not list(tmp_path.iterdir())
