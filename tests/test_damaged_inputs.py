"""Every reader, fed with damaged input: one sentence or the right answer, and nothing written."""

import pytest

from benchmarks.torture.inputs import Fed, feed_all
from benchmarks.torture.readers import READERS


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_damage_is_one_sentence_or_does_not_matter(reader, tmp_path, monkeypatch):
    monkeypatch.setenv("LARC_CACHE", str(tmp_path / "cache"))
    outcome = Fed()
    feed_all(tmp_path, 2 * reader.weight, 1, outcome, print, readers=[reader])
    assert outcome.problems == []
    assert outcome.tried == 2 * reader.weight
