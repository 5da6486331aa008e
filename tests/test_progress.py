"""Progress is shown on a terminal, with the time left, and nowhere else."""

import re

import pytest

from larc.progress import Display, counting, tracked


def study():
    display = Display()
    with display.over(units=3, done=1):
        display.unit("train-adapted-7", total=4, done=1)
        for done in (2, 3):
            display.update(done, loss=0.25)
        display._progress.refresh()
        display.finished("train-adapted-7")


def loop():
    with tracked("adapter", total=4) as on_update:
        for done in (1, 2, 3):
            on_update(done, 0.25)


def listing():
    with counting() as tell:
        for done in range(5):
            tell("runs", done, 8, "")
        tell("jobs", 2, 9, "waiting for the server")


SHOWN = {
    study: ["train-adapted-7", "3/4", "1/3", "loss 0.2500"],
    loop: ["adapter", "3/4", "loss 0.2500"],
    listing: ["runs", "4/8", "jobs", "2/9", "waiting for the server"],
}


@pytest.mark.parametrize("work", SHOWN)
def test_a_terminal_shows_what_is_done_and_the_time_left(work, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # what makes rich take anything for a terminal
    monkeypatch.setenv("COLUMNS", "100")
    work()
    printed = capsys.readouterr()
    assert printed.out == ""
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", printed.err)
    for part in SHOWN[work]:
        assert part in text
    assert re.search(r"\d:\d\d:\d\d", text)


@pytest.mark.parametrize("work", SHOWN)
def test_a_pipe_shows_nothing(work, capsys, monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    work()
    assert capsys.readouterr() == ("", "")
