"""Every way that is timed must lead to the gradient it is compared by."""

import sys

import pytest
import torch

from benchmarks.speed import higher_peer, outer
from benchmarks.speed.peers import PeerMissing
from benchmarks.speed.setting import check_same
from benchmarks.speed.table import Missing
from larc.errors import LarcError


def relative(gradient: torch.Tensor, reference: torch.Tensor) -> float:
    return float((gradient - reference).abs().max() / reference.abs().max())


@pytest.fixture(scope="module")
def ways(setting):
    return outer.alternatives(setting)


@pytest.fixture(scope="module")
def reference(setting):
    return outer.ours(setting)()


# Float32 sums in other orders, through four layers and three passes: 2e-6 is seen.
@pytest.mark.parametrize("name", ["plain", "paper", "peft", "higher"])
def test_every_layout_and_peer_has_our_gradient(ways, reference, name, peer):
    if name in ("peft", "higher"):
        peer(name)
    gradient = ways[name]()
    assert relative(gradient.A, reference.A) < 1e-4
    assert relative(gradient.B, reference.B) < 1e-4


def test_higher_has_our_gradient_through_the_inner_steps_too(setting, reference, peer):
    peer("higher")
    exact = outer.ours(setting, "exact")()
    gradient = higher_peer.higher_gradient(setting, exact=True)()
    assert relative(gradient.A, exact.A) < 1e-4
    assert relative(gradient.B, exact.B) < 1e-4
    assert relative(reference.A, exact.A) > 1e-3  # another gradient: the comparison can fail


def test_a_way_with_another_gradient_is_refused(reference):
    with pytest.raises(LarcError, match="does not compute what LARC does"):
        check_same("twice as much", 2 * reference.A, reference.A, outer.TOLERANCE)


def test_a_peer_that_is_not_there_is_a_row_that_says_so(setting, monkeypatch):
    monkeypatch.setitem(sys.modules, "higher", None)
    alternative = outer.alternatives(setting)["higher"]
    assert isinstance(alternative, PeerMissing)
    assert "pip install 'larc-lm[bench]'" in str(alternative)


def test_rows_name_every_alternative(setting, peer):
    peer("peft", "higher")
    rows = outer.rows(setting)
    assert [row.case for row in rows] == [*outer.NAMES.values()]
    assert not any(isinstance(row, Missing) for row in rows)
    assert all(row.ratio.low <= row.ratio.value <= row.ratio.high for row in rows)
