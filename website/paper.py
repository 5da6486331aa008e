"""Rows of the paper's tables, to stand beside ours: facts of its Sections 5 to 7, in its units."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from larc.reporting.seeds import seed_row
from larc.reporting.tables import Cell
from larc.studies.ci.results import contrasts
from larc.studies.prefix.report import gains

#: By the name that our table of the same definition has: the columns, then the rows.
PAPER: dict[str, tuple[tuple[Cell, ...], ...]] = {
    "endpoint": (
        ("Objective", "2811", "2812", "2813", "Mean", "Seed SD"),
        ("Static", 21.90, 31.47, 34.53, 29.30, 6.59),
        ("Adapted", 20.46, 41.93, 11.44, 24.61, 15.66),
    ),
    "contrasts": (
        ("Contrast", "Mean", "99 % interval", "2811", "2812", "2813"),
        ("Δobj", 4.69, "[1.19, 8.88]", 1.45, -10.46, 23.09),
        ("Static G", 24.65, "[19.39, 29.26]", 31.43, 20.16, 22.35),
        ("Static D", 28.36, "[21.85, 34.93]", 37.76, 26.78, 20.55),
        ("Adapted G", 36.65, "[31.65, 41.20]", 40.52, 18.64, 50.78),
        ("Adapted D", 35.77, "[30.33, 41.01]", 40.21, 19.97, 47.13),
    ),
    "controls": (
        ("Objective", "Real/keep", "Real/reset", "Sham/keep", "Sham/reset", "Text", "Rule"),
        ("Static", 29.30, 53.95, 57.67, 53.95, 61.78, 0.78),
        ("Adapted", 24.61, 61.26, 60.38, 61.26, 61.03, 0.78),
    ),
    "secondary": (
        ("Objective", "Read state", "Expected error", "Greedy error", "All queries correct"),
        ("Static", "Reset", 53.95, 47.76, 42.71),
        ("Static", "Adapted state", 29.30, 15.49, 81.77),
        ("Adapted", "Reset", 61.26, 61.72, 30.21),
        ("Adapted", "Adapted state", 24.61, 16.04, 80.73),
    ),
    "replay": (
        ("Path", "2811", "2812", "2813", "Mean", "Seed SD"),
        ("P0M0", 0.1291, 0.1196, 0.1372, 0.1286, 0.0088),
        ("P1M0", 0.1667, 0.1542, 0.1970, 0.1726, 0.0220),
        ("P0M1", 0.1162, 0.1174, 0.1487, 0.1274, 0.0184),
        ("P1M1", 0.1839, 0.1658, 0.1927, 0.1808, 0.0137),
        ("PERM_M1", 0.3193, 0.2867, 0.3854, 0.3305, 0.0503),
        ("ORIGINAL", 0.1681, 0.1646, 0.1633, 0.1653, 0.0025),
        ("CALIBRATED", 0.1576, 0.1594, 0.1534, 0.1568, 0.0030),
        ("HEDGE4", 0.1024, 0.1024, 0.1024, 0.1024, 0.0),
    ),
    "strata": (
        ("Repository", "Label", "Jobs", "Commits", "Reset", "Keep", "Permuted", "HEDGE4"),
        ("numpy/numpy", "All", "83", "1", 0.0300, 0.0273, 0.2656, 0.0277),
        ("numpy/numpy", "Success", "83", "1", 0.0300, 0.0273, 0.2656, 0.0277),
        ("pandas-dev/pandas", "All", "3238", "71", 0.2248, 0.3343, 0.3954, 0.1772),
        ("pandas-dev/pandas", "Success", "2310", "63", 0.0401, 0.2048, 0.3926, 0.0702),
        ("pandas-dev/pandas", "Failure", "32", "12", 0.9386, 0.7644, 0.3842, 0.7128),
        ("pandas-dev/pandas", "Cancelled", "704", "18", 0.8475, 0.6987, 0.4050, 0.5847),
        ("pandas-dev/pandas", "Other", "192", "57", 0.2692, 0.7327, 0.4179, 0.0574),
    ),
    "weightings": (
        ("Aggregation", "Reset", "Keep", "Permuted", "HEDGE4"),
        ("Repository then commit (primary)", 0.1274, 0.1808, 0.3305, 0.1024),
        ("Commit", 0.2221, 0.3300, 0.3936, 0.1751),
        ("Job", 0.2329, 0.3410, 0.3934, 0.1836),
    ),
    "prefix": (
        ("Update path", "2811", "2812", "2813", "Mean", "Seed SD"),
        ("CARRY_1", 0.3577, 0.1925, 0.3400, 0.2967, 0.0907),
        ("CARRY_TENTH", 0.2847, 0.3384, 0.3382, 0.3204, 0.0310),
        ("LATEST_1", 0.2666, 0.2488, 0.3115, 0.2756, 0.0323),
        ("LATEST_TENTH", 0.2223, 0.1748, 0.2713, 0.2228, 0.0482),
        ("RESET", 0.1775, 0.2214, 0.2302, 0.2097, 0.0282),
        ("HEDGE4", 0.1679, 0.1679, 0.1679, 0.1679, 0.0),
    ),
    "first": (
        (
            *("Repository", "Labels", "Seed"),
            *("Before update", "Original increment", "Tenth increment", "Original increment norm"),
        ),
        ("pandas-dev/pandas", "8 other", "2811", 0.513218, 3.007320, 0.102798, 1.590172),
        ("pandas-dev/pandas", "8 other", "2812", 2.503274, 2.838060, 2.805870, 7.709818),
        ("pandas-dev/pandas", "8 other", "2813", 0.721480, 1.350831, 0.139986, 2.632058),
    ),
}


def _losses(table: str) -> dict[str, NDArray[np.float64]]:
    """Return the rounded losses of a table of the paper's: each path's, by seed."""
    return {str(row[0]): np.array(row[1:4], dtype=float) for row in PAPER[table][1:]}


def _derived(
    first: str, gained: Iterable[tuple[str, NDArray[np.float64]]]
) -> tuple[tuple[Cell, ...], ...]:
    """Return the table of gains that such losses imply."""
    columns = (first, *PAPER["replay"][0][1:])
    return (columns, *(tuple(seed_row(gain, name)) for name, gain in gained))


PAPER["effects"] = _derived("Contrast", contrasts(_losses("replay")).values())
PAPER["prefix-effects"] = _derived("Gain", gains(_losses("prefix")).items())
#: Digits of those that are no percentages.
DIGITS = dict.fromkeys(set(PAPER) - {"endpoint", "contrasts", "controls", "secondary"}, 4)

#: What the paper's studies took: slow updates, and seconds of a whole entry on one RTX 4090.
SPENT = {"programs": (1536, 1634.503), "ci": (2010, 13229.793), "prefix": (0, 1058.808)}
#: The work of its program study by kind: calls, and positions with padding.
WORK = {"mixer": (11581, 47435776), "head": (6195, 1585920), "backward": (5386, 0)}
