"""A small made-up data set, called synthetic wherever it appears."""

from __future__ import annotations

import numpy as np

from larc.studies.streams.reading import Item

WORDS = ("belt", "crane", "door", "fan", "lamp", "pump", "saw", "valve")
TEAMS = ("red team", "blue team", "green team")


def synthetic_streams(
    streams: int = 12, questions: int = 24, seed: int = 20261118
) -> dict[str, tuple[Item, ...]]:
    """Return streams of synthetic sites, each of which sends what breaks to teams by its own rule.

    Examples
    --------
    >>> streams = synthetic_streams()
    >>> item = streams["synthetic-site-00"][0]
    >>> item.text.startswith("Synthetic report: "), item.candidates
    (True, ('red team', 'blue team', 'green team'))
    """
    made = {}
    for site in range(streams):
        draw = np.random.default_rng([seed, site])
        rule = draw.integers(len(TEAMS), size=len(WORDS))
        name = f"synthetic-site-{site:02}"
        items = []
        for number in range(questions):
            word = int(draw.integers(len(WORDS)))
            label = int(rule[word] if draw.random() < 0.9 else draw.integers(len(TEAMS)))
            text = f"Synthetic report: the {WORDS[word]} of hall {int(draw.integers(9))} broke"
            items.append(Item(name, f"{number:03}", text, TEAMS, label, order=number))
        made[name] = tuple(items)
    return made
