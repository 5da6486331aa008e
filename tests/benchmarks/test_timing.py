import pytest
import torch

from benchmarks.speed.timing import Spread, Timed, alternate, growth, peak_bytes, ratio


def test_all_alternatives_run_in_turn_and_every_other_round_backwards():
    calls: list[str] = []
    ticks = iter(range(100))
    times = alternate(
        {name: lambda name=name: calls.append(name) for name in "abc"},
        3,
        clock=lambda: float(next(ticks)),
    )
    assert "".join(calls) == "aabbccccbbaaaabbcc"
    assert times["a"] == Timed((1.0, 1.0, 1.0))


def test_what_takes_long_is_run_unmeasured_only_once():
    calls: list[str] = []
    ticks = iter(range(0, 1000, 50))
    alternate({"a": lambda: calls.append("a")}, 3, clock=lambda: float(next(ticks)), settled=10)
    assert calls == ["a"] * 4


def test_a_ratio_is_taken_within_each_repetition():
    slow_machine = ratio(Timed((2.0, 20.0, 3.0)), Timed((1.0, 10.0, 1.0)))
    assert slow_machine == Spread(2.0, 2.0, 3.0)


def test_growth_is_fitted_to_each_repetition():
    sizes = [1.0, 2.0, 4.0]
    times = [Timed((size, size**2)) for size in sizes]
    spread = growth(sizes, times)
    assert (spread.low, spread.high) == (pytest.approx(1), pytest.approx(2))


def test_the_peak_is_what_tensors_occupied_at_once():
    def run() -> None:
        first = torch.ones(1000, 1000)
        second = first + 1
        del first
        third = second + 1
        del second, third

    # Two of the three matrices of 4 MB are there at once; nothing else is of any size.
    assert 8_000_000 <= peak_bytes(run) < 8_100_000
