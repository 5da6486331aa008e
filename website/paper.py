"""Rows of the paper's tables, to stand beside ours: facts of its Sections 5 and 6, in its units."""

from __future__ import annotations

from larc.reports.tables import Cell

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
}
#: Digits of those that are no percentages.
DIGITS = {"replay": 4}
