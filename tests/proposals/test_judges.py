"""Judges in processes of their own: what they answer, and what their limits hold."""

import socket
import subprocess
import sys
import threading

import pytest

import larc
from larc.errors import LarcError
from larc.proposals.judges import SubprocessJudge, network_can_be_left

# 1 for what was refused, 0 for what was done.
TRY = "try:\n    {}\nexcept BaseException:\n    print(1)\nelse:\n    print(0)"


def python(code, **limits):
    return SubprocessJudge([sys.executable, "-I", "-S", "-c", code], **limits)


def test_the_last_number_printed_is_the_loss():
    judge = python("import sys; print('working'); print(len(sys.stdin.read()) / 4)")
    assert judge(["", "ab", "é" * 4]) == [0.0, 0.5, 1.0]


@pytest.mark.parametrize(
    "code",
    ["print('nothing')", "pass", "print(0); raise SystemExit(3)", "print(float('nan'))", "1 / 0"],
)
def test_a_command_that_does_not_answer_has_lost(code):
    assert python(code, failed=2.0)(["x"]) == [2.0]


def test_time_is_limited_and_what_was_started_ends_too(tmp_path):
    # A grandchild holds the other end of a connection: it is closed when that one is gone.
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        inner = f"import socket, time; s = socket.create_connection(('127.0.0.1', {port})); "
        inner += "time.sleep(600)"
        code = "import subprocess, sys\n"
        code += f"subprocess.run([sys.executable, '-c', {inner!r}])"
        answers = []
        judge = python(code, seconds=5.0, network="any")
        thread = threading.Thread(target=lambda: answers.extend(judge(["x"])))
        thread.start()
        server.settimeout(120)
        connection, _ = server.accept()
        with connection:
            connection.settimeout(120)
            assert connection.recv(1) == b""
        thread.join()
    assert answers == [1.0]


def test_the_loss_is_the_last_number_however_much_was_printed():
    assert python("print('1 ' * 10_000); print(0.25)")(["x"]) == [0.25]


def test_what_took_too_long_is_tried_once_more(tmp_path):
    """A machine that was busy the first time changes no loss."""
    file = tmp_path / "tried"
    code = f"import os, time; first = not os.path.exists({str(file)!r}); "
    code += f"open({str(file)!r}, 'a').write('x'); time.sleep(600 * first); print(0.5)"
    judge = python(code, seconds=3.0, patience=20)
    assert judge(["x"]) == [0.5]
    assert (file.read_text(), judge.late) == ("xx", [])
    file.unlink()
    impatient = python(code, seconds=3.0)
    assert impatient(["x"]) == [1.0]
    assert (file.read_text(), impatient.late) == ("x", ["x"])


def test_what_takes_too_long_twice_is_noted():
    judge = python("import time; time.sleep(600)", seconds=0.2, patience=2)
    assert judge(["a", "b"]) == [1.0, 1.0]
    assert judge.late == ["a", "b"]


def test_memory_is_limited():
    code = TRY.format("x = b'x' * 2**29")
    assert python(code, memory=2**28)(["x"]) == [1.0]
    assert python(code, memory=2**31)(["x"]) == [0.0]


def test_files_are_limited(tmp_path):
    file = tmp_path / "written"
    write = f"f = open({str(file)!r}, 'wb'); f.write(b'x' * 2**16); f.close()"
    code = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n" + TRY.format(write)
    assert python(code, file=2**10)(["x"]) == [1.0]
    assert file.stat().st_size <= 2**10
    opened = TRY.format("x = [open('/dev/null') for _ in range(50)]")
    assert python(opened, files=16)(["x"]) == [1.0]


def test_it_works_in_an_empty_directory_without_our_environment(monkeypatch):
    monkeypatch.setenv("LARC_SECRET", "secret")
    code = "import os; print(len(os.listdir()) + ('LARC_SECRET' in os.environ))"
    assert python(code)(["x"]) == [0.0]


def test_there_is_no_network_where_the_system_allows_that():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        connect = TRY.format(f"import socket; socket.create_connection(('127.0.0.1', {port}), 20)")
        assert python(connect, network="any")(["x"]) == [0.0]
        left = network_can_be_left()
        assert python(connect, network="try")(["x"]) == [float(left)]
        if left:
            assert python(connect, network="none")(["x"]) == [1.0]
        else:
            with pytest.raises(LarcError, match="user namespaces"):
                python(connect, network="none")


@pytest.mark.parametrize(
    ("command", "limits", "sentence"),
    [
        ("true", {}, "words of a command"),
        ([], {}, "a command is a list"),
        (["/no/such/program"], {}, "there is no program"),
        (["true"], {"seconds": 0}, "seconds"),
        (["true"], {"memory": 0}, "memory"),
        (["true"], {"patience": 0.5}, "patience"),
        (["true"], {"network": "some"}, "network 'some'"),
    ],
)
def test_what_cannot_judge_is_refused(command, limits, sentence):
    with pytest.raises(LarcError, match=sentence):
        SubprocessJudge(command, **limits)


def test_an_episode_learns_from_a_process(tiny):
    judge = python("import sys; print(0 if sys.stdin.read() == 'ba' else 0.5)")
    learner = larc.Learner(tiny, larc.SlowState.initial(tiny, seed=1))
    search = learner.begin().improve("Say: ", judge, 4, 2, grammar=["a", "b", "ab", "ba"])
    assert search.best.text == "ba"


def test_the_launcher_says_what_it_could_not_do():
    from larc.proposals import confining

    limits = '{"network": "any", "cpu": 1, "memory": 1, "file": 1, "files": 1}'
    done = subprocess.run(
        [sys.executable, "-I", "-S", confining.__file__, limits, "/bin/true"],
        capture_output=True,
        check=False,
    )
    assert done.returncode != 0  # a byte of memory is too little for anything
