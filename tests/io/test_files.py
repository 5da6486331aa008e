"""Files and directories that are whole or absent, on real disks that are full or closed."""

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from larc import LarcError
from larc.io.files import atomic_directory, atomic_write, is_aside, make_directory


def run_python(script, *arguments, **options):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 KiB, where the kernel lets this process mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    options = ["-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    mounted = subprocess.run(["mount", *options], capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip("this process may not mount a file system")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_leaves_the_old_content(small_disk):
    path = small_disk / "file"
    atomic_write(path, b"old")
    with pytest.raises(LarcError, match=r"file could not be written \(No space left on device\)"):
        atomic_write(path, bytes(100_000))
    assert path.read_bytes() == b"old"
    assert [child.name for child in small_disk.iterdir()] == ["file"]
    with pytest.raises(LarcError, match="No space left"), atomic_directory(small_disk / "d") as new:
        (new / "large").write_bytes(bytes(100_000))
    assert [child.name for child in small_disk.iterdir()] == ["file"]


def test_a_write_past_the_limit_of_the_system_leaves_the_old_content(tmp_path):
    # The kernel refuses in the middle of the file, wherever no file system can be mounted.
    script = """
        import resource, sys
        from larc import LarcError
        from larc.io.files import atomic_write
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
        atomic_write(sys.argv[1], b"old")
        try:
            atomic_write(sys.argv[1], bytes(100_000))
        except LarcError as error:
            print(error)
    """
    done = run_python(script, tmp_path / "file")
    assert "file could not be written (File too large)" in done.stdout, done.stderr
    assert (tmp_path / "file").read_bytes() == b"old"
    assert [child.name for child in tmp_path.iterdir()] == ["file"]


@pytest.fixture
def closed():
    """A directory that anybody may look into and nobody but the superuser may change."""
    with tempfile.TemporaryDirectory() as name:
        closed = Path(name)
        (closed / "file").write_bytes(b"old")
        closed.chmod(0o555)
        yield closed
        closed.chmod(0o755)


def test_a_directory_closed_to_this_user_is_one_sentence(closed):
    # The superuser is let in everywhere: there, somebody else has to try.
    other = os.fork() if os.geteuid() == 0 else None
    if other == 0:
        try:
            os.setgid(65534)
            os.setuid(65534)
            _check_closed(closed)
        except BaseException:
            os._exit(1)
        os._exit(0)
    if other is None:
        _check_closed(closed)
    else:
        assert os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]) == 0
    assert [child.name for child in closed.iterdir()] == ["file"]


def _check_closed(closed):
    for attempt in (
        lambda: atomic_write(closed / "file", b"new"),
        lambda: make_directory(closed / "new"),
        lambda: atomic_directory(closed / "new").__enter__(),
    ):
        with pytest.raises(LarcError, match=r"Permission denied"):
            attempt()
    assert (closed / "file").read_bytes() == b"old"


def test_a_file_in_place_of_a_directory_is_one_sentence(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    for attempt in (
        lambda: atomic_write(tmp_path / "file" / "a", b"new"),
        lambda: make_directory(tmp_path / "file" / "a"),
        lambda: atomic_directory(tmp_path / "file" / "a").__enter__(),
    ):
        with pytest.raises(LarcError, match=r"Not a directory|File exists"):
            attempt()


def test_a_directory_is_made_whole_or_not_at_all(tmp_path):
    directory = tmp_path / "new"

    with pytest.raises(ZeroDivisionError), atomic_directory(directory) as new:
        (new / "a").write_bytes(bytes(1 // 0))
    assert not any(tmp_path.iterdir())
    with atomic_directory(directory) as new:
        atomic_write(new / "a", b"1")
        assert not directory.exists()
    assert (directory / "a").read_bytes() == b"1"
    with pytest.raises(LarcError, match="exists already"), atomic_directory(directory):
        pass
    assert (directory / "a").read_bytes() == b"1"


def test_a_killed_write_leaves_the_old_content_and_a_file_that_is_known_by_its_name(tmp_path):
    # Waits for ever in the middle of a write: it is stopped between writing and naming.
    script = """
        import os, sys
        from larc.io import files
        def stuck(handle):
            print("writing", flush=True)
            sys.stdin.read()
        os.fsync = stuck
        files.atomic_write(sys.argv[1], b"new")
    """
    path = tmp_path / "file"
    atomic_write(path, b"old")
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"writing\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert path.read_bytes() == b"old"
    left = [child for child in tmp_path.iterdir() if child != path]
    assert [is_aside(child) for child in left] == [True]


def test_a_device_or_a_pipe_is_never_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/null")):
        with pytest.raises(LarcError, match="no file but a device"):
            atomic_write(path, b"1")
    assert pipe.is_fifo()
    assert Path("/dev/null").is_char_device()
