"""Wrong arguments of everything public, a little of what ``make torture`` tries."""

from benchmarks.torture.arguments import Called, call_all


def test_wrong_arguments_are_one_sentence_and_change_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("LARC_CACHE", str(tmp_path / "cache"))
    outcome = Called()
    call_all(tmp_path / "calls", 150, 1, outcome, print)
    assert outcome.problems == []
    assert outcome.tried >= 150
    assert outcome.refused > 75
