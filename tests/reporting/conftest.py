import pytest

from larc.evaluation import reliability
from larc.reporting.charts import Figure, Line, Lines, Rows, Value, reliability_chart
from larc.reporting.page import Facts
from larc.reporting.report import Report
from larc.reporting.tables import Table

HOSTILE = '<img src="https://example.org/x" onerror="alert(1)"> & "quoted"'


@pytest.fixture(scope="session")
def report():
    """A report with every kind of chart, a wide and a tall table, and names that are no names."""
    slopes = [
        Line("", [0, 1], [52.4, 16.0], note="2811"),
        Line("", [0, 1], [50.4, 18.0], note="2812"),
        Line("", [0, 1], [51.4, 17.0], note="mean", dashed=True),
    ]
    gains = [
        Value("Δobj", 36.4, 32.3, 40.7),
        Value("Static G", 10.1, 7.6, 12.2, series="Static"),
        Value("Adapted G", 49.0, 44.5, 53.4, series="Adapted"),
    ]
    curve = [0.7 - 0.0005 * x + 0.05 * (x % 7) / 7 for x in range(1000)]
    low, high = ([y + d for y in curve] for d in (-0.1, 0.1))
    bins = reliability([[0.9, 0.1], [0.8, 0.2], [0.45, 0.55], [0.35, 0.65]], [0, 1, 1, 0])
    moves = [
        Value(f"{group}, a row with quite a long name", 20.0 + k, start=50.0, series=series)
        for group in ("first", HOSTILE)
        for k, series in enumerate(("Static", "Adapted", "Untrained", "Mine"))
    ]
    bars = [Value("a", -2.0, -3.0, -1.0), Value("b", 4.0, note="one seed")]
    return Report(
        "A study of everything",
        f"Does it help {HOSTILE}?",
        "It helped: error was 16.01 % kept and 64.99 % reset, a gain of 48.98 points "
        "(99 % interval 44.54 to 53.45).",
        [
            Table("wide", "In %.", [f"Column {n}" for n in range(14)], [[HOSTILE, *range(13)]]),
            Table("tall", "", ("Row", "Value"), [[f"row {n}", n / 7] for n in range(40)]),
        ],
        [
            Figure(
                "result",
                "Two panels.",
                [
                    Lines("Error", "", "%", slopes, 1, ["Static", "Adapted"], points=True),
                    Rows("Gains", "Points", gains, 1, reference=0.0, signed=True),
                ],
            ),
            Figure(
                "curves",
                "Long lines.",
                [
                    Lines(
                        "Training",
                        "Update",
                        "Loss",
                        [
                            Line("Static", range(1, 1001), curve, low, high),
                            Line("Adapted", range(1, 1001, 2), [y / 2 for y in curve[::2]]),
                            Line("Adapted", range(1, 1001), curve, faint=True),
                        ],
                    ),
                    Lines(
                        "Log", "Jobs", "Loss", [Line("Keep", [1, 10, 100], [1, 2, 3])], log_x=True
                    ),
                ],
            ),
            Figure("moves", HOSTILE, [Rows("Moves", "Error (%)", moves, 1)]),
            Figure(
                "others",
                "The rest.",
                [
                    Rows("Bars", "Change", bars, 2, bars=True, reference=0.0, signed=True),
                    reliability_chart("Reliability", {"Keep": bins}),
                ],
            ),
        ],
        [f"Mind this: {HOSTILE}."],
    )


@pytest.fixture(scope="session")
def facts():
    return Facts(
        "larc study programs --preset quick",
        [("seeds", [1, 2], "Training seeds."), ("untrained", True, ""), ("adapter", "", HOSTILE)],
        [Table("ledger", "Work.", ("Operation", "Calls"), [["query", 12]])],
        [{"python": "3.11", "packages": {"larc": "0.1.0"}, "weights": 64 * "a"}],
        [{"event": "predictions written", "previous": ""}],
        ["boundary=20,rule=sgd_0.1"],
    )
