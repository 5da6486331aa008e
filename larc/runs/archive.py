"""A finished run as one archive, and an archive as a run directory again."""

from __future__ import annotations

from pathlib import Path

from larc.errors import LarcError
from larc.io.files import atomic_directory, atomic_write, make_directory
from larc.runs.run import Run
from larc.runs.store import SUFFIX, archive_content, archived_files


def pack(run: Run, out: Path) -> Path:
    """Write the record of a finished run, and of a sweep's runs, to one archive.

    The report is left out: it follows from the record.

    Examples
    --------
    >>> import tempfile
    >>> directory = Path(tempfile.mkdtemp())
    >>> run = Run.start(directory / "run", "example", {"size": 1})
    >>> run.finish_unit("a", {"x.txt": b"content"})
    >>> run.close()
    >>> packed = Run(pack(run, directory / "run.larc"))
    >>> packed.unit_file("a", "x.txt")
    b'content'
    """
    if out.suffix != SUFFIX:
        raise LarcError(f"{out} is no name of an archive; give one that ends with {SUFFIX}.")
    if out.exists():
        raise LarcError(f"{out} exists already; remove it or choose another name.")
    if not run.is_closed:
        raise LarcError(f"{run.path} is not finished; run its own command again to go on.")
    make_directory(out.parent)
    atomic_write(out, archive_content(recorded_files(run)))
    return out


def recorded_files(run: Run) -> dict[str, bytes]:
    """Return every file of a run's record by name, its manifest included."""
    names = [name for name in run.store.names() if run.role(name) in ("evidence", "manifest")]
    return {name: run.read(name) for name in names}


def unpack(archive: Path, out: Path) -> Path:
    """Make a run directory of an archive, atomically."""
    files = archived_files(archive)
    with atomic_directory(out) as directory:
        for name, content in files.items():
            make_directory((directory / name).parent)
            atomic_write(directory / name, content)
    return out
