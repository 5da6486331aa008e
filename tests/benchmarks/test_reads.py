"""Private states that are timed must be the same states everywhere."""

import pytest
import torch

from benchmarks.speed import reads


@pytest.fixture(scope="module")
def ways(setting):
    return reads.ways(setting, count=3)


@pytest.mark.parametrize("name", ["mixed", "packed", "turn", "reft"])
def test_every_peer_reads_the_same_policies(setting, ways, name, peer):
    peer(*(("pyreft", "pyvene") if name == "reft" else ("peft",)))
    our_read, others = ways
    ours, theirs = torch.stack(our_read()), torch.stack(others[name]())
    torch.testing.assert_close(theirs, ours, atol=1e-4, rtol=0)  # float32, other sums: 1e-6 seen
    # The states differ, so that a mixed-up one would show: the same question, another policy.
    assert setting.episodes[0].prompt == setting.episodes[2].prompt
    assert float((ours[0] - ours[2]).abs().max()) > 1e-3
