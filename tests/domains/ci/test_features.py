import zlib

from larc.domains.ci import Observation, features
from larc.domains.ci.features import FeatureHasher

SEEN = Observation("o/r", 5, None, "push", "build (linux, x64)", "c0ffee", 1767312000)


def test_the_features_are_words_and_pairs_under_their_fields_by_crc32():
    texts = [
        *("repository:o", "repository:r", "repository:o r", "workflow:5", "event:push"),
        *("job:build", "job:linux", "job:x64", "job:build linux", "job:linux x64"),
        *("commit:c0ffee", "time:weekday4", "time:hour0", "time:weekday4 hour0"),
    ]
    expected = sorted({zlib.crc32(text.encode()) % 1024 for text in texts})
    assert FeatureHasher(1024).indices(SEEN).tolist() == expected


def test_a_full_cache_changes_nothing(monkeypatch):
    expected = FeatureHasher(1024).indices(SEEN).tolist()
    monkeypatch.setattr(features, "_CACHED", 2)
    hasher = FeatureHasher(1024)
    for number in range(5):
        hasher.indices(Observation("o/r", number, None, None, "x", "y", 3600 * number + 1))
    assert hasher.indices(SEEN).tolist() == expected
    assert len(hasher._parts) <= 2
    assert len(hasher._whole) <= 2


def test_every_index_is_in_range_and_there_once():
    indices = FeatureHasher(8).indices(SEEN).tolist()
    assert indices == sorted(set(indices))
    assert set(indices) <= set(range(8))
