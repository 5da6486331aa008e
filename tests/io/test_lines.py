import gzip
import subprocess
import sys

import pytest

from larc.errors import LarcError
from larc.io import lines
from larc.io.lines import Damaged, TooLong, read_lines

TEXT = b"".join(b'{"number": %d}\n' % number for number in range(50_000))


def test_plain_and_gzip_give_the_same_lines_whatever_the_name(tmp_path):
    plain, packed = tmp_path / "a.gz", tmp_path / "b.jsonl"
    plain.write_bytes(TEXT)
    packed.write_bytes(gzip.compress(TEXT))
    assert list(read_lines(plain)) == list(read_lines(packed)) == TEXT.splitlines()


def test_gzip_members_and_padding_are_read_through(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"one\ntw") + gzip.compress(b"o\nthree") + b"\0" * 10)
    assert list(read_lines(path)) == [b"one", b"two", b"three"]


@pytest.mark.parametrize("cut", [5, 200, 20_000])
def test_everything_before_the_damage_is_given_out(tmp_path, cut):
    path = tmp_path / "a.gz"
    packed = gzip.compress(TEXT)
    path.write_bytes(packed[: len(packed) - cut])
    collected = []
    with pytest.raises(Damaged):
        collected.extend(line for line in _collect(path, collected))
    assert collected == TEXT.splitlines()[: len(collected)]
    # A cut in the trailer loses nothing; a longer one loses about its share.
    assert len(collected) >= len(TEXT.splitlines()) * (1 - 1.5 * cut / len(packed)) - 1000


def _collect(path, collected):
    for line in read_lines(path):
        collected.append(line)
    return []


def test_a_line_without_end_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "LONGEST_LINE", 100)
    monkeypatch.setattr(lines, "_CHUNK", 64)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"one\n" + b"x" * 1000 + b"\nthree\n" + b"y" * 500)
    collected = list(read_lines(path))
    assert [type(line) is TooLong for line in collected] == [False, True, False, True]
    assert collected[2] == b"three"


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(LarcError, match="cannot be read: No such file"):
        list(read_lines(tmp_path / "none"))


MEASURED = """
import resource, sys
from larc.errors import LarcError
from larc.studies.stream.events import read_events

def most():
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

before = most()
try:
    read_events(sys.argv[1])
except LarcError as error:
    print(error)
print(most() - before)
"""


@pytest.mark.parametrize("packed", [False, True])
def test_a_line_of_100_mb_is_refused_by_its_number_and_never_held(tmp_path, packed):
    path = tmp_path / "a.jsonl"
    with gzip.open(path, "wb", 1) if packed else path.open("wb") as file:
        file.write(b"{}\n" + b'{"prompt": "')
        for _ in range(100):
            file.write(b"x " * 500_000)
        file.write(b'"}\n')
    told = subprocess.run(
        [sys.executable, "-c", MEASURED, str(path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    ).stdout
    assert "line 2: it is too long to be one object." in told
    # One line of at most 16 MiB, and what adding a piece to it takes.
    assert int(told.splitlines()[-1]) < 4 * lines.LONGEST_LINE < 100_000_000
