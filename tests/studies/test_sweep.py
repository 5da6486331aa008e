from pathlib import Path

import pytest

from larc.runs.run import Run
from larc.studies.episodic.sweep import report

RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize(
    ("name", "panels"),
    [
        ("programs-steps", ["Error against evaluations", "Error against time"]),
        # Two fixed steps are two evaluations, whatever the rank.
        ("programs-rank", ["Error against time"]),
    ],
)
def test_error_is_shown_against_every_cost_that_differs(name, panels):
    gains, cost = report(Run(RESULTS / name)).figures
    assert gains.name == "gains"
    assert [panel.title for panel in cost.panels] == panels


def test_one_combination_has_no_cost_to_compare(tmp_path):
    sweep = Run(RESULTS / "programs-steps")
    alone = Run.start(
        tmp_path / "sweep", sweep.kind, {**sweep.settings, "varied": {"inner_steps": ["2"]}}
    )
    chosen = sweep.child("inner_steps=2")
    for name in chosen.store.names():
        path = alone.path / "inner_steps=2" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(chosen.read(name))
    assert [figure.name for figure in report(alone).figures] == ["gains"]
