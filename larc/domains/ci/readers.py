"""Read job histories: JSONL (plain or gzip), GitHub's raw answers, and Parquet."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from larc.domains.ci.accounting import Accounting, Tally
from larc.domains.ci.job_tables import Lost, read_parquet
from larc.domains.ci.jobs import Job, LeftOut, Reason, job_from_row
from larc.errors import LarcError
from larc.github.payloads import flat_row, read_payload
from larc.io.lines import Damaged, TooLong, read_chunks, read_lines

_SUFFIXES = (".json", ".jsonl", ".ndjson", ".parquet")


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON value")


# NaN and the infinities are Python's own addition to JSON.
def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    row = dict(pairs)
    if len(row) < len(pairs):
        raise ValueError("a field is given twice")
    return row


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_once)


def read_jobs(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    renamed: Mapping[str, str] | None = None,
) -> tuple[list[Job], Accounting]:
    """Read the jobs of files and directories, and account for every row.

    A ``.parquet`` file is read as Parquet, a ``.json`` file as one document (or as lines, where
    its first line is a whole object), everything else as JSON lines; any of the text forms may be
    gzip. A line may hold a flat job row or anything that :func:`larc.github.payloads.read_payload`
    knows. Jobs of raw answers are completed from the runs found in any of the files, and follow
    the flat rows. A directory stands for the files below it that end as one of these.

    Parameters
    ----------
    paths
        One path or several, read in this order.
    renamed
        Old repository name to new one, for a history that spans a renaming. Nothing is renamed
        unless it is asked for.

    Raises
    ------
    LarcError
        Where a file cannot be read at all. Damage inside a file is counted instead.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "jobs.jsonl"
    >>> row = {"repository": "o/r", "job_name": "build", "head_sha": "c0ffee", "job_id": 7,
    ...        "started_at": "2026-01-02T00:00:00Z", "completed_at": "2026-01-02T00:00:09Z",
    ...        "conclusion": "success"}
    >>> _ = path.write_text(json.dumps(row) + chr(10) + "{oops" + chr(10))
    >>> jobs, accounting = read_jobs(path)
    >>> len(jobs), accounting.rows()
    (1, {'read': 2, 'accepted': 1, 'left_out': {'invalid_json': 1}})
    >>> print(str(accounting.examples[0]).split("/")[-1])
    jobs.jsonl:2: invalid_json: Expecting property name enclosed in double quotes at column 2
    """
    several = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    intake = _Intake(dict(renamed or {}))
    for path in chain.from_iterable(_files(Path(path)) for path in several):
        if path.suffix == ".parquet":
            _read_parquet(path, intake)
        elif path.name.removesuffix(".gz").endswith(".json"):
            _read_document(path, intake)
        else:
            _read_rows(path, intake)
    intake.join()
    return intake.ledger.jobs, intake.ledger.close()


def _files(path: Path) -> Sequence[Path]:
    if not path.is_dir():
        return [path]
    try:
        paths = [
            file
            for file in sorted(path.rglob("*"))
            if file.name.removesuffix(".gz").endswith(_SUFFIXES) and file.is_file()
        ]
    except OSError as error:
        raise LarcError(f"{path} cannot be read: {error.strerror or error}.") from error
    if not paths:
        raise LarcError(f"{path} holds no file that ends in {', '.join(_SUFFIXES)}.")
    return paths


@dataclass(slots=True)
class _Intake:
    """What is known while files are read: booked rows, runs, and raw jobs that wait for runs."""

    renamed: dict[str, str]
    ledger: Tally = field(default_factory=Tally)
    texts: dict[str, str] = field(default_factory=dict)
    runs: dict[int, Mapping[str, object]] = field(default_factory=dict)
    waiting: list[tuple[Mapping[str, object], str | None, str, int]] = field(default_factory=list)

    def row(self, row: Mapping[str, object], file: str, line: int) -> None:
        outcome = job_from_row(row, self.texts)
        if self.renamed and isinstance(outcome, Job) and outcome.repository in self.renamed:
            outcome = outcome._replace(repository=self.renamed[outcome.repository])
        self.ledger.take(outcome, file, line)

    def document(self, document: object, file: str, line: int) -> None:
        if not isinstance(document, dict):
            detail = f"found {type(document).__name__}"
            self.ledger.leave(Reason.NOT_AN_OBJECT, file, line, detail)
        elif "job_name" in document or "job_id" in document:
            self.row(document, file, line)
        elif (answer := read_payload(document)) is None:
            detail = f"keys {sorted(document)[:5]}"
            self.ledger.leave(Reason.NOT_A_JOB, file, line, detail)
        else:
            for number, run in enumerate(answer.runs, start=1):
                if isinstance(run, dict) and type(run.get("id")) is int:
                    self.ledger.runs += 1
                    self.runs[run["id"]] = run
                else:
                    detail = "a run without an integer id"
                    self.ledger.leave(Reason.NOT_AN_OBJECT, file, number, detail)
            # Within one document jobs are numbered from 1; a line that holds one job keeps its own.
            for number, job in enumerate(answer.jobs, start=1):
                position = line if len(answer.jobs) == 1 else number
                if isinstance(job, dict):
                    self.waiting.append((job, answer.repository, file, position))
                else:
                    detail = f"found {type(job).__name__} among the jobs"
                    self.ledger.leave(Reason.NOT_AN_OBJECT, file, position, detail)

    def text(self, line: bytes, file: str, number: int) -> None:
        parsed = _parse(line)
        if isinstance(parsed, LeftOut):
            self.ledger.leave(parsed.reason, file, number, parsed.detail)
        else:
            self.document(parsed[0], file, number)

    def join(self) -> None:
        for job, repository, file, line in self.waiting:
            run_id = job.get("run_id")
            run = self.runs.get(run_id) if type(run_id) is int else None
            self.row(flat_row(job, run, repository), file, line)
        self.waiting.clear()


def _parse(text: bytes) -> tuple[object] | LeftOut:
    """Return the JSON value of a text in a 1-tuple (it may be None), or why there is none."""
    try:
        line = text.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        return LeftOut(Reason.INVALID_UTF8, f"byte {error.start + 1} is no UTF-8")
    if not line:
        return LeftOut(Reason.BLANK_LINE, "nothing but white space")
    try:
        value, end = _DECODER.raw_decode(line)
    except json.JSONDecodeError as error:
        return LeftOut(Reason.INVALID_JSON, f"{error.msg} at column {error.pos + 1}")
    except RecursionError:
        return LeftOut(Reason.INVALID_JSON, "nested too deeply")
    except ValueError as error:
        # An integer of thousands of digits, or a constant that is no JSON.
        return LeftOut(Reason.INVALID_JSON, str(error).split(";")[0])
    if end != len(line):
        return LeftOut(Reason.INVALID_JSON, f"more than one value: the first ends at column {end}")
    return (value,)


def _read_rows(path: Path, intake: _Intake) -> None:
    file, number = str(path), 0
    try:
        for number, line in enumerate(read_lines(path), start=1):
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            if type(line) is TooLong:
                detail = f"starts with {line[:40]!r}"
                intake.ledger.leave(Reason.LINE_TOO_LONG, file, number, detail)
            else:
                intake.text(line, file, number)
    except Damaged as error:
        intake.ledger.leave(Reason.DAMAGED_STREAM, file, number + 1, str(error))


def _read_document(path: Path, intake: _Intake) -> None:
    file = str(path)
    try:
        text = b"".join(read_chunks(path)).removeprefix(b"\xef\xbb\xbf")
    except Damaged as error:
        # Half a document is none: nothing of it can be trusted.
        intake.ledger.leave(Reason.DAMAGED_STREAM, file, 1, str(error))
        return
    first, _, others = text.partition(b"\n")
    # Lines that are named .json: the first one is a whole object, and something follows it.
    if others.strip() and first.rstrip().endswith(b"}") and isinstance(_parse(first), tuple):
        for number, line in enumerate(text.removesuffix(b"\n").split(b"\n"), start=1):
            intake.text(line, file, number)
        return
    parsed = _parse(text)
    if isinstance(parsed, tuple) and isinstance(parsed[0], list):
        for number, document in enumerate(parsed[0], start=1):
            intake.document(document, file, number)
    elif isinstance(parsed, tuple):
        intake.document(parsed[0], file, 1)
    else:
        intake.ledger.leave(parsed.reason, file, 1, parsed.detail)


def _read_parquet(path: Path, intake: _Intake) -> None:
    number = 0
    for row in read_parquet(path):
        if isinstance(row, Lost):
            first, detail = number + 1, row.detail
            intake.ledger.leave(Reason.DAMAGED_STREAM, str(path), first, detail, row.rows)
            number += row.rows
        else:
            number += 1
            intake.row(row, str(path), number)
