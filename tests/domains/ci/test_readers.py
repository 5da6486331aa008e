import gzip
import json
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from larc.domains.ci import read_jobs
from larc.errors import LarcError


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def balanced(accounting):
    return accounting.read == accounting.accepted + sum(accounting.left_out.values())


def test_every_damaged_row_is_named_by_its_line(tmp_path, make_row):
    path = tmp_path / "jobs.jsonl"
    good = json.dumps(make_row()).encode()
    path.write_bytes(
        b"\n".join(
            [
                b"\xef\xbb\xbf" + good,
                b"{broken",
                b"",
                b"[1, 2]",
                b'"text"',
                b"null",
                b'{"job_name": "\xff"}',
                b'{"job_id": NaN}',
                b'{"job_id": ' + b"9" * 5000 + b"}",
                b"[" * 100_000,
                good + good,
                b'{"something": "else"}',
                b"\x00\x01",
            ]
        )
    )
    jobs, accounting = read_jobs(path)
    assert len(jobs) == 1
    assert accounting.read == 13
    assert balanced(accounting)
    assert {(example.line, example.reason) for example in accounting.examples} == {
        (2, "invalid_json"),
        (3, "blank_line"),
        (4, "not_an_object"),
        (5, "not_an_object"),
        (6, "not_an_object"),
        (7, "invalid_utf8"),
        (8, "invalid_json"),
        (9, "invalid_json"),
        (10, "invalid_json"),
        (11, "invalid_json"),
        (12, "not_a_job"),
    }
    assert accounting.left_out["invalid_json"] == 6
    assert all(example.file == str(path) for example in accounting.examples)


def test_a_truncated_gzip_gives_what_it_has_and_counts_the_rest_once(tmp_path, make_row):
    path = tmp_path / "jobs.jsonl.gz"
    rows = [make_row(job_id=number, head_sha=f"{number:040x}") for number in range(20_000)]
    packed = gzip.compress(write(tmp_path / "plain", rows).read_bytes())
    path.write_bytes(packed[: len(packed) // 2])
    jobs, accounting = read_jobs(path)
    assert 5_000 < len(jobs) < 15_000
    assert accounting.left_out == {"damaged_stream": 1}
    assert accounting.examples[0].line == len(jobs) + 1


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300), name=st.sampled_from(["a.jsonl", "a.json", "a.gz", "a"]))
def test_no_bytes_crash_a_reader(tmp_path, data, name):
    path = tmp_path / name
    path.write_bytes(data)
    _, accounting = read_jobs(path)
    assert balanced(accounting)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
KEYS = ("repository", "job_name", "job_id", "head_sha", "started_at", "completed_at", "conclusion")


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.lists(
        st.dictionaries(
            st.sampled_from((*KEYS, "status", "workflow_id", "event", "run_id", "run_attempt")),
            values,
            max_size=3,
        ),
        max_size=4,
    ),
    raw=values,
)
def test_no_values_crash_a_reader(tmp_path, make_row, changes, raw):
    rows = [make_row(**change) for change in changes]
    answers = [{"jobs": raw}, {"workflow_runs": raw}, {"workflow_job": raw}, {"jobs": [raw]}]
    path = write(tmp_path / "a.jsonl", [*rows, *answers])
    jobs, accounting = read_jobs(path)
    assert balanced(accounting)
    assert accounting.accepted == len(jobs)


def test_a_json_file_may_be_one_document_a_list_or_lines(tmp_path, make_row):
    rows = [make_row(job_id=number) for number in range(3)]
    lines = write(tmp_path / "lines.json", rows)
    several = tmp_path / "several.json"
    several.write_text(json.dumps(rows, indent=2))
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps(rows, indent=2)[:-20])
    expected, _ = read_jobs(write(tmp_path / "rows.jsonl", rows))
    assert read_jobs(lines)[0] == read_jobs(several)[0] == expected
    jobs, accounting = read_jobs(broken)
    assert (jobs, accounting.left_out) == ([], {"invalid_json": 1})


def test_a_repository_is_renamed_only_when_asked(tmp_path, make_row):
    rows = [make_row(repository="old/name", job_id=1), make_row(repository="new/name", job_id=2)]
    path = write(tmp_path / "a.jsonl", rows)
    assert {job.repository for job in read_jobs(path)[0]} == {"old/name", "new/name"}
    jobs, _ = read_jobs(path, renamed={"old/name": "new/name"})
    assert {job.repository for job in jobs} == {"new/name"}


def test_what_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(LarcError, match="cannot be read"):
        read_jobs(tmp_path / "absent.jsonl")
    with pytest.raises(LarcError, match="cannot be read"):
        read_jobs(tmp_path / "absent.json")
    with pytest.raises(LarcError, match="holds no file"):
        read_jobs(tmp_path)


def test_parquet_gives_the_jobs_of_the_same_rows(tmp_path, make_row):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    rows = [
        make_row(job_id=1),
        make_row(job_id=2, workflow_id=None, event=None, conclusion="skipped"),
        make_row(job_id=3, conclusion=None),
        make_row(job_id=4, completed_at="2026-01-01T00:00:00Z"),
    ]
    expected, counted = read_jobs(write(tmp_path / "a.jsonl", rows))
    table = pa.Table.from_pylist(rows)
    for number, unit in enumerate([None, "s", "us", "ns"]):
        path = tmp_path / f"{number}.parquet"
        shown = table
        if unit is not None:
            for name in ("started_at", "completed_at"):
                moments = table[name].cast(pa.timestamp(unit, "UTC"))
                shown = shown.set_column(shown.schema.get_field_index(name), name, moments)
            # Integers with gaps are floats once pandas has held them.
            column = table["workflow_id"].cast(pa.float64())
            shown = shown.set_column(
                shown.schema.get_field_index("workflow_id"), "workflow_id", column
            )
        pq.write_table(shown, path)
        jobs, accounting = read_jobs(path)
        assert jobs == expected
        assert accounting.rows() == counted.rows()


def test_parquet_that_is_odd_or_damaged(tmp_path, make_row):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"other": [1, 2]}), path)
    assert read_jobs(path)[1].left_out == {"missing_identity": 2}

    naive = pa.Table.from_pylist([make_row()])
    moments = naive["started_at"].cast(pa.timestamp("s", "UTC")).cast(pa.timestamp("s"))
    index = naive.schema.get_field_index("started_at")
    pq.write_table(naive.set_column(index, "started_at", moments), path)
    assert read_jobs(path)[1].left_out == {"timestamp_without_zone": 1}

    extreme = pa.array([2**62, None], pa.timestamp("ms", "UTC"))
    rows = pa.Table.from_pylist([make_row(job_id=1), make_row(job_id=2)])
    pq.write_table(rows.set_column(index, "started_at", extreme), path)
    _, accounting = read_jobs(path)
    assert accounting.read == sum(accounting.left_out.values()) == 2

    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(LarcError, match="cannot be read as Parquet"):
        read_jobs(path)


def test_damaged_pages_of_parquet_count_their_rows(tmp_path, make_row):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    rows = [make_row(job_id=number, head_sha=f"{number:040x}") for number in range(2000)]
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=500)
    contents = bytearray(path.read_bytes())
    metadata = pq.read_metadata(path)
    column = metadata.row_group(2).column(metadata.schema.names.index("head_sha"))
    for offset in range(column.data_page_offset + 40, column.data_page_offset + 200):
        contents[offset] ^= 0x5A
    path.write_bytes(contents)
    jobs, accounting = read_jobs(path)
    assert accounting.read == 2000
    assert balanced(accounting)
    assert sum(accounting.left_out.values()) == 2000 - len(jobs)
    assert 1500 <= len(jobs) < 2000


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(LarcError, match=r"larc-lm\[studies\]"):
        read_jobs(tmp_path / "a.parquet")


def test_every_shared_file_is_accounted_for(shared_data):
    # Replies of GitHub, and files of jobs; the streams are of other questions.
    replies = sorted((shared_data / "github").glob("*.json"))
    for path in [*replies, *sorted((shared_data / "ci").glob("*.jsonl.gz"))]:
        jobs, accounting = read_jobs(path)
        assert balanced(accounting)
        assert accounting.accepted == len(jobs)
        if path.name.endswith(".jsonl.gz"):
            with gzip.open(path) as file:
                assert accounting.read == sum(1 for _ in file)
            assert len(jobs) > 0.99 * accounting.read
