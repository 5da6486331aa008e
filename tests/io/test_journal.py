"""Journals: appended, whole or refused, and never overwritten by somebody who did not read them."""

import os
import subprocess
import sys

import pytest

import larc
from larc.io import journal as journals
from larc.io.journal import Journal, read_journal

KIND = "note, version 1"
SAVES = [
    {"x/a": b"1" * 200, "x/b": b"2", "x/c": b""},
    {"x/a": b"1" * 200, "x/b": b"3"},
    {"x/a": b"1" * 200, "x/d": b"\0\n\xff", "x/b": b"3"},  # in another order
    {"x/b": b"3"},
    {"x/b": b"3", "x/a": b"x"},
]


def saved(path, count=5):
    journal = Journal(KIND)
    return journal, [journal.save(path, sections) for sections in SAVES[:count]]


def read(path):
    return read_journal(path.read_bytes(), "note")[1]


def test_a_journal_holds_what_was_saved_last_in_its_order_and_writes_what_changed(tmp_path):
    journal = Journal(KIND)
    sizes = []
    for sections in SAVES:
        sizes.append(journal.save(tmp_path / "note", sections))
        assert list(read(tmp_path / "note").items()) == list(sections.items())
    assert max(sizes[1:]) < sizes[0]
    assert (tmp_path / "note").stat().st_size == sum(sizes)
    assert [path.name for path in tmp_path.iterdir()] == ["note"]


def test_every_prefix_is_an_earlier_save_or_refused(tmp_path):
    _, sizes = saved(tmp_path / "note")
    content = (tmp_path / "note").read_bytes()
    ends = [sum(sizes[: n + 1]) for n in range(len(sizes))]
    for length in range(len(content) + 1):
        whole = [number for number, end in enumerate(ends) if end <= length]
        if whole:
            assert read_journal(content[:length], "note")[1] == SAVES[whole[-1]]
        else:
            with pytest.raises(ValueError, match=r"no record|no journal"):
                read_journal(content[:length], "note")


def test_every_changed_byte_is_noticed(tmp_path):
    saved(tmp_path / "note")
    content = (tmp_path / "note").read_bytes()
    for place in range(len(content)):
        spoiled = bytearray(content)
        spoiled[place] ^= 0x10
        with pytest.raises((ValueError, LookupError)):
            read_journal(bytes(spoiled), "note")


def test_a_save_that_was_never_finished_is_left_out_and_written_over(tmp_path):
    path = tmp_path / "note"
    saved(path, 2)
    whole = path.read_bytes()
    for tail in (b"\x05", b"\0" * 4096, journals._pack(b"x" * 32, [], {"q": b"?" * 90})[:-40]):
        path.write_bytes(whole + tail)
        assert read(path) == SAVES[1]
        journal = Journal(KIND)
        content = path.read_bytes()
        journal.adopt(path, content, read_journal(content, "note")[1])
        journal.save(path, SAVES[2])
        assert read(path) == SAVES[2]
        assert path.read_bytes().startswith(whole)


def test_a_journal_that_grew_is_written_anew(tmp_path):
    journal = Journal(KIND)
    for number in range(40):
        journal.save(tmp_path / "note", {"a": bytes([number]) * 9000})
    assert read(tmp_path / "note") == {"a": bytes([39]) * 9000}
    assert (tmp_path / "note").stat().st_size < 80_000


def test_what_somebody_else_saved_meanwhile_is_not_overwritten(tmp_path):
    path = tmp_path / "note"
    first, _ = saved(path, 1)
    second = Journal(KIND)
    second.adopt(path, path.read_bytes(), SAVES[0])
    second.save(path, SAVES[1])
    with pytest.raises(larc.LarcError, match="saved by another session meanwhile"):
        first.save(path, SAVES[2])
    assert read(path) == SAVES[1]
    first.save(tmp_path / "elsewhere", SAVES[2])
    path.unlink()
    first.save(path, SAVES[2])  # it is gone, so nothing is lost
    assert read(path) == SAVES[2]


SCRIPT = """
import sys
from larc.io.journal import Journal
Journal("note, version 1").save(sys.argv[1], {"a": b"theirs"})
"""


def test_what_another_process_saved_is_not_overwritten_unread(tmp_path):
    path = tmp_path / "note"
    subprocess.run([sys.executable, "-c", SCRIPT, path], check=True, timeout=60)
    with pytest.raises(larc.LarcError, match="another process saved; restore it first"):
        Journal(KIND).save(path, SAVES[0])
    assert read(path) == {"a": b"theirs"}
    reader = Journal(KIND)
    reader.adopt(path, path.read_bytes(), read(path))
    reader.save(path, SAVES[0])
    assert read(path) == SAVES[0]
    Journal(KIND).save(path, SAVES[1])  # of one process, whose business it is


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_fork_is_another_process(tmp_path):
    saved(tmp_path / "note", 1)
    child = os.fork()
    if not child:
        try:
            Journal(KIND).save(tmp_path / "note", SAVES[1])
        except larc.LarcError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_write_that_fails_leaves_what_was_saved_and_can_be_tried_again(tmp_path, monkeypatch):
    path = tmp_path / "note"
    journal, _ = saved(path, 2)
    real = os.write

    def full(handle, content):
        if len(content) > 60:
            return real(handle, bytes(content[:50]))
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(larc.LarcError, match="No space left"):
            journal.save(path, SAVES[2])
    assert read(path) == SAVES[1]
    journal.save(path, SAVES[2])
    assert read(path) == SAVES[2]
    for place in (tmp_path / "no" / "such" / "place", None, 7, "a\0b"):
        with pytest.raises(larc.LarcError):
            journal.save(place, SAVES[0])
    with pytest.raises(larc.LarcError):
        journal.save(tmp_path, SAVES[0])


def test_appending_waits_for_the_disk_only_when_asked_to(tmp_path, monkeypatch):
    waits = []
    journal, _ = saved(tmp_path / "note", 1)
    monkeypatch.setattr(os, "fsync", lambda handle: waits.append(handle))
    journal.save(tmp_path / "note", SAVES[1])
    assert not waits
    journal.save(tmp_path / "note", SAVES[2], durable=True)
    assert len(waits) == 1
