"""The demonstration over a real pipe and, where there is one, on a real terminal."""

import os
import re
import subprocess
import sys

import pytest
from rich.console import Console

import larc
from larc.cli import main
from larc.cli.demonstration import Demo, begin

COMMAND = [sys.executable, "-m", "larc.cli", "demo", "--substrate", "tiny"]
POLICY = re.compile(r"^  [1-4]  .{30}(?: *([\d.]+) % ([▲▼=]))? *([\d.]+) %", re.MULTILINE)


def piped(text, *options):
    return subprocess.run(
        [*COMMAND, *options], input=text, capture_output=True, text=True, check=False
    )


def answers(output):
    """What was printed after each command that was typed."""
    return dict(part.split("\n", 1) for part in output.split("\nlarc> ")[1:])


def policies(part):
    return [(b and float(b), arrow, float(now)) for b, arrow, now in POLICY.findall(part)]


def test_an_episode_over_a_pipe(tmp_path):
    kept = tmp_path / "episode"
    lines = ["real 2", f"save {kept}", "reset", "sham", f"resume {kept}", "answer", "rael"]
    done = piped("\n".join(lines))  # and then the end of the file, with no quit
    assert done.returncode == 0
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    replies = answers(done.stdout)
    target = int(re.search(r"program (\d) is right", replies["answer"])[1]) - 1
    first = [now for _, _, now in policies(done.stdout.split("\nlarc> ")[0])]
    steps = policies(replies["real 2"])
    assert len(first) == 4
    assert len(steps) == 8
    # Each row shows where it was, which way it went, and where it is.
    assert [before for before, _, _ in steps] == [*first, *(now for _, _, now in steps[:4])]
    for before, arrow, now in steps:
        assert arrow == ("=" if before == now else "▲" if now > before else "▼") or (
            abs(before - now) < 0.11  # one digit is shown, and compared with more of them
        )
    assert steps[4 + target][2] > first[target] + 5
    assert [now for _, _, now in policies(replies["reset"])] == first
    assert "sham feedback" in replies["sham"]
    assert f"kept in {kept}: task 1, step 2." in replies[f"save {kept}"]
    assert "resumed: task 1, step 2." in replies[f"resume {kept}"]
    assert [now for _, _, now in policies(replies[f"resume {kept}"])] == [
        n for _, _, n in steps[4:]
    ]
    assert replies["rael"] == "there is no command 'rael'; did you mean 'real'?\n"


def test_commands_that_make_no_sense_are_answered_with_a_sentence(capsys, tmp_path):
    demo = Demo(begin(larc.load_substrate("tiny"), "", "descent:1.0"), Console(width=79))
    foreign = larc.Learner(demo.learner.substrate, demo.learner.slow, demo.learner.rule).begin(999)
    foreign.save(tmp_path / "foreign")
    for line, sentence in (
        ("xyzzy", "there is no command 'xyzzy'; there are: real, sham"),
        ("real many", "'many' is no number from 1 to 100."),
        ("next 65", "'65' is no number from 1 to 64."),
        ("save", "save takes a file; write `save FILE`."),
        (f"save {tmp_path}/no/where", "could not be written"),
        (f"resume {tmp_path}/absent", "there is no file"),
        (f"resume {tmp_path}/foreign", "was not kept by this demonstration"),
        ("", ""),
    ):
        demo.answer(line)
        assert sentence in capsys.readouterr().out
    assert demo.episode.step == 0


def test_another_task_is_another_episode_and_a_kept_one_knows_its_task(capsys, tmp_path):
    substrate = larc.load_substrate("tiny")
    demo = Demo(begin(substrate, "", "descent:1.0"), Console(width=79))
    first = demo.task
    demo.answer("next")
    assert demo.task != first
    assert demo.task.group.family != first.group.family
    demo.answer("next 64")
    last = demo.task
    demo.answer("real")
    demo.answer(f"save {tmp_path}/episode")
    demo.answer("next")
    assert demo.task == first
    assert demo.episode.step == 0
    demo.answer(f"resume {tmp_path}/episode")
    assert (demo.task, demo.episode.step) == (last, 1)
    seen = set()
    for number in range(64):
        demo.episode = demo.learner.begin(number)
        seen.add(demo.task.name)
    assert len(seen) == 64


def test_it_starts_from_a_trained_state(tmp_path, capsys, monkeypatch):
    substrate = larc.load_substrate("tiny")
    slow = larc.SlowState.initial(substrate, seed=1, boundary=1)
    slow = slow.advanced(slow.factors.map(lambda tensor: tensor + 0.1))
    (tmp_path / "slow").write_bytes(slow.to_bytes())
    slow.save_pretrained(tmp_path / "package")
    for state in ("slow", "package"):
        learner = begin(substrate, str(tmp_path / state), "sgd:0.1")
        assert learner.slow.digest == slow.digest
        assert learner.rule == larc.SGD(0.1)
    # A refusal before anything is shown is the command's own.
    assert main(["demo", "--substrate", "tiny", "--state", str(tmp_path / "absent")]) == 1
    assert "there is no file" in capsys.readouterr().err


def test_on_a_terminal_it_asks_and_shows_colours():
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "NO_COLOR": ""}
    environment.pop("NO_COLOR")
    with subprocess.Popen(
        COMMAND, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, close_fds=True
    ) as process:
        os.close(theirs)
        os.write(ours, b"real\nquit\n")
        output = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # how Linux says that the other end is closed
                break
            if not part:
                break
            output += part
    os.close(ours)
    text = output.decode()
    assert process.returncode == 0
    assert "larc> " in text
    assert "\x1b[32m▲" in text  # green, up
    assert "\x1b[31m▼" in text
    assert "step 1, real feedback" in text
