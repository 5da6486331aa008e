from larc.domains.ci import LeftOut, Reason
from larc.domains.ci.accounting import EXAMPLES_PER_REASON, Tally


def test_all_rows_are_counted_and_a_few_are_shown(make_job):
    ledger = Tally()
    for line in range(1, 21):
        ledger.take(LeftOut(Reason.NOT_COMPLETED, "why"), "f", line)
    ledger.take(make_job(), "f", 21)
    accounting = ledger.close()
    assert accounting.rows() == {"read": 21, "accepted": 1, "left_out": {"not_completed": 20}}
    assert [example.line for example in accounting.examples] == list(
        range(1, EXAMPLES_PER_REASON + 1)
    )
    assert str(accounting.examples[0]) == "f:1: not_completed: why"


def test_the_first_of_duplicates_stays(make_job):
    ledger = Tally()
    ledger.take(make_job(label=0), "f", 1)
    ledger.take(make_job(label=0), "f", 2)
    ledger.take(make_job(label=1), "f", 3)
    assert [job.label for job in ledger.jobs] == [0]
    details = [example.detail for example in ledger.close().examples]
    assert "other contents" not in details[0]
    assert "other contents" in details[1]


def test_a_job_is_found_again_under_its_repositorys_new_name(make_job):
    ledger = Tally()
    ledger.take(make_job(repository="old/name"), "f", 1)
    ledger.take(make_job(repository="new/name"), "f", 2)
    assert ledger.close().left_out == {"duplicate": 1}


def test_equal_ids_of_different_hosts_are_different_jobs(make_job):
    ledger = Tally()
    ledger.take(make_job(repository="a/a", head_sha="aa"), "f", 1)
    ledger.take(make_job(repository="b/b", head_sha="bb"), "f", 2)
    ledger.take(make_job(repository="b/b", head_sha="bb"), "f", 3)
    assert len(ledger.jobs) == 2
    assert ledger.close().left_out == {"duplicate": 1}
