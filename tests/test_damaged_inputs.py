"""Every reader, fed with damaged input: one sentence or the right answer, and nothing written."""

import pytest

from benchmarks.torture.inputs import Fed, feed_all
from benchmarks.torture.readers import READERS


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_damage_is_one_sentence_or_does_not_matter(reader, tmp_path, monkeypatch):
    monkeypatch.setenv("LARC_CACHE", str(tmp_path / "cache"))
    found = Fed()
    feed_all(tmp_path, 2 * reader.weight, 1, found, print, readers=[reader])
    assert found.problems == []
    assert found.tried == 2 * reader.weight
