"""One process at a time on a directory, whatever becomes of the one before."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from larc import LarcError
from larc.io.locks import holder, locked

HOLD = """
    import sys
    from pathlib import Path
    from larc.io.locks import locked
    with locked(Path(sys.argv[1])):
        print("held", flush=True)
        sys.stdin.read()
"""


def held_by_another(directory):
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLD), str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"held\n"
    return process


def test_the_second_process_is_told_which_one_has_it(tmp_path):
    process = held_by_another(tmp_path)
    assert holder(tmp_path) == process.pid
    with (
        pytest.raises(LarcError, match=f"in use by process {process.pid}; wait"),
        locked(tmp_path),
    ):
        pass
    process.communicate(b"")
    with locked(tmp_path):
        assert holder(tmp_path) == os.getpid()
    assert holder(tmp_path) is None
    assert not any(tmp_path.iterdir())


def test_a_killed_process_leaves_a_lock_that_the_next_one_takes(tmp_path):
    process = held_by_another(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert (tmp_path / "lock").read_text() == f"{process.pid}\n"
    assert holder(tmp_path) is None
    with locked(tmp_path):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_a_file_that_is_no_lock_is_left_alone(tmp_path):
    (tmp_path / "lock").write_text("of my bicycle")
    with pytest.raises(LarcError, match="is no lock of larc"), locked(tmp_path):
        pass
    assert (tmp_path / "lock").read_text() == "of my bicycle"


def test_many_processes_never_hold_it_together(tmp_path):
    # Each adds one to a number by reading and writing it: a lost addition shows two at once.
    script = """
        import sys
        from pathlib import Path
        from larc import LarcError
        from larc.io.locks import locked
        directory, done = Path(sys.argv[1]), 0
        while done < 40:
            try:
                with locked(directory):
                    count = directory / "count"
                    count.write_text(str(int(count.read_text()) + 1))
                    done += 1
            except LarcError:
                pass
    """
    (tmp_path / "count").write_text("0")
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)]
    processes = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert (tmp_path / "count").read_text() == "120"
