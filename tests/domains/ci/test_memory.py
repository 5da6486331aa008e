import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from larc.domains.ci import LABELS, Case, CaseMemory, MemoryLimits, Observation, case_of
from larc.errors import LarcError


def asked(workflow_id=5, job_name="build"):
    return Observation("o/r", workflow_id, None, None, job_name, "zz", 100)


cases = st.builds(
    Case,
    workflow_id=st.none() | st.integers(0, 3),
    job_name=st.sampled_from(["build", "test", "ü" * 3000, "x" * 20_000]),
    commit=st.text(max_size=5),
    result=st.sampled_from(LABELS),
)


@given(st.lists(cases, max_size=40))
def test_the_limits_hold_and_the_latest_stay(written):
    memory = CaseMemory()
    memory.write(written)
    assert len(memory.cases) <= 16
    assert memory.size <= 16 * 1024
    fitting = [case for case in written if case.size <= 16 * 1024]
    assert memory.refused == len(written) - len(fitting)
    assert list(memory.cases) == fitting[len(fitting) - len(memory.cases) :]
    # Nothing was let go that would still have fitted.
    if len(memory.cases) < min(16, len(fitting)):
        older = fitting[len(fitting) - len(memory.cases) - 1]
        assert memory.size + older.size > 16 * 1024
    restored = CaseMemory.from_state(json.loads(json.dumps(memory.state())))
    assert restored.cases == memory.cases
    assert restored.state() == memory.state()


def test_the_same_workflow_and_job_come_first_then_the_latest():
    memory = CaseMemory()
    memory.write(
        [
            Case(5, "build", "aa", "failure"),
            Case(6, "build", "bb", "success"),
            Case(5, "docs", "cc", "success"),
        ]
    )
    assert [case.commit for case in memory.read(asked())] == ["aa", "cc"]
    assert [case.commit for case in memory.read(asked(job_name="new"))] == ["cc", "bb"]
    memory.write([Case(5, "build", f"{n}", "success") for n in range(3)])
    assert [case.commit for case in memory.read(asked())] == ["2", "1"]


def test_a_workflow_without_an_id_matches_its_like():
    memory = CaseMemory()
    memory.write([Case(None, "build", "aa", "failure"), Case(5, "build", "bb", "failure")])
    assert memory.read(asked(workflow_id=None))[0].commit == "aa"


def test_reset_forgets_everything_and_an_empty_memory_shows_nothing():
    memory = CaseMemory()
    memory.write([Case(5, "build", "aa", "failure"), Case(5, "x" * 20_000, "aa", "failure")])
    memory.reset()
    assert memory.read(asked()) == ()
    assert memory.state() == CaseMemory().state()


def test_a_case_has_the_real_label(make_job):
    observation = make_job().observation
    assert [case_of(observation, label).result for label in range(4)] == list(LABELS)


@pytest.mark.parametrize(
    "change",
    [
        {"format": None},
        {"cases": [[5, "build", "aa"]]},
        {"cases": [[5, "build", "aa", "green"]]},
        {"cases": [[5, "build", "aa", "success"]] * 17},
        {"cases": [[5, 7, "aa", "success"]]},
        {"limits": "many"},
    ],
)
def test_a_damaged_state_is_refused(change):
    with pytest.raises(LarcError):
        CaseMemory.from_state(CaseMemory().state() | change)


def test_limits_can_be_chosen():
    memory = CaseMemory(MemoryLimits(cases=3, exposed=1))
    memory.write([Case(5, "build", f"{n}", "success") for n in range(5)])
    assert [case.commit for case in memory.cases] == ["2", "3", "4"]
    assert len(memory.read(asked())) == 1
