"""The names of an episodic run's units: made from what a unit is, and never taken apart."""

from __future__ import annotations

QUERIES, FINAL_QUERIES = "queries", "final-queries"


def training_name(objective: str, seed: int) -> str:
    """Return the name of the unit that trains a state by an objective with a seed.

    Examples
    --------
    >>> training_name("adapted", 7)
    'train-adapted-7'
    """
    return f"train-{objective}-{seed}"


def prediction_name(arm: str, seed: int, *, final: bool = False) -> str:
    """Return the name of the unit that predicts with an arm and a seed.

    Examples
    --------
    >>> prediction_name("static", 7), prediction_name("static", 7, final=True)
    ('predict-static-7', 'final-static-7')
    """
    return f"{'final' if final else 'predict'}-{arm}-{seed}"
