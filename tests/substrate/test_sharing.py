"""Weights as a mapping of a file: one copy for all processes, and the same model."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import larc
from larc.errors import LarcError
from larc.substrate.sharing import are_mapped, share_weights

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/maps").exists(), reason="mappings are read from /proc"
)
OTHER = """
import sys
from pathlib import Path
import larc
from larc.substrate.sharing import share_weights
tiny = larc.load_substrate("tiny")
file = share_weights(tiny, Path(sys.argv[1]))
lines = [one for one in Path("/proc/self/smaps").read_text().split("VmFlags") if file.name in one]
sizes = [int(one.split(name)[1].split()[0]) for one in lines for name in ("Private_Dirty:",)]
print(file, tiny.identity.weights, sum(sizes))
"""


def weights(substrate):
    return [one.data for one in substrate.model.parameters()]


def test_two_processes_map_one_file(tmp_path):
    tiny = larc.load_substrate("tiny")
    before = [one.clone() for one in weights(tiny)]
    assert not are_mapped(weights(tiny))
    learner = larc.Learner(tiny, larc.SlowState.initial(tiny, seed=1))
    question = ("Next: ", ["up", "down"])
    (policy,) = learner.read_many([(learner.begin(), *question)])
    file = share_weights(tiny, tmp_path)
    assert are_mapped(weights(tiny))
    assert all(map(torch.equal, weights(tiny), before))
    again = larc.Learner(tiny, larc.SlowState.initial(tiny, seed=1))
    assert torch.equal(again.read_many([(again.begin(), *question)])[0], policy)
    done = subprocess.run(
        [sys.executable, "-c", OTHER, str(tmp_path)], capture_output=True, text=True, check=True
    )
    # The other one maps the same file, and has no page of it to itself.
    assert done.stdout.split() == [str(file), tiny.identity.weights, "0"]
    assert [one.name for one in tmp_path.iterdir()] == [file.name]


def test_a_model_that_was_learned_with_is_still_frozen(tmp_path):
    tiny = larc.load_substrate("tiny")
    share_weights(tiny, tmp_path)
    learner = larc.Learner(tiny, larc.SlowState.initial(tiny, seed=1))
    learner.update_many([(learner.begin(), [larc.Label("Next: ", ["up", "down"], 0)])])
    fresh = larc.load_substrate("tiny")
    assert all(map(torch.equal, weights(tiny), weights(fresh)))


def test_another_file_of_that_name_is_refused(tmp_path):
    file = share_weights(larc.load_substrate("tiny"), tmp_path)
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.unlink()
    for damaged in (bytes(content), b"", content[:100]):
        file.write_bytes(damaged)
        with pytest.raises(LarcError, match="delete it"):
            share_weights(larc.load_substrate("tiny"), tmp_path)
