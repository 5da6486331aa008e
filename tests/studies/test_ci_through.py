"""The continuous-integration study with states trained through the training window."""

import pytest

from larc.cli import main
from larc.io.parquet import from_parquet
from larc.rules import parse_rule
from larc.runs.run import Run
from larc.state import SlowState
from larc.studies.ci.results import contrasts, load_results

SEED = 2026092811
SMALL = ["--preset", "smoke", "--seeds", str(SEED), "--train", "14", "--audit", "8"]


def study(out, *options):
    return main(["study", "ci", *SMALL, "--out", str(out), *options])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "through"
    assert study(out, "--through", "first-order", "--window", "4") == 0
    return out


def test_the_same_strategies_are_replayed_from_such_states(run):
    results = load_results(Run(run))
    names = {f"THROUGH_{name}" for name in ("P0M0", "P1M0", "P0M1", "P1M1", "PERM_M1")}
    assert names <= set(results.paths)
    found = contrasts(results.path_scores)
    _, gain = found["G with memory, through"]
    scores = results.path_scores
    assert gain == pytest.approx(scores["THROUGH_P0M1"] - scores["THROUGH_P1M1"])
    report = (run / "report.md").read_text()
    assert "G with memory, trained through the window" in report
    assert main(["verify", str(run)]) == 0


def test_the_budget_is_the_papers_and_on_record_before_the_audit(run):
    fitted, through = (
        SlowState.from_bytes(Run(run).unit_file(f"{kind}-{SEED}", "slow.safetensors"))
        for kind in ("fit", "through")
    )
    assert through.version == fitted.version > 0
    assert not through.factors.equal(fitted.factors)
    assert len(Run(run).unit_json(f"through-{SEED}", "curve.json")) == through.version
    events = Run(run).evidence()
    places = {event["event"]: place for place, event in enumerate(events)}
    finished = events[places["training finished"]]
    assert set(finished["slow"]) == {f"fit-{SEED}", f"through-{SEED}"}
    assert places["training finished"] < places["predictions written"]


def test_without_them_a_run_is_what_it_was(run, tmp_path):
    """The paper's strategies say the same, bit for bit: the others have sessions of their own."""
    assert study(tmp_path / "plain") == 0
    plain, more = (load_results(Run(path)) for path in (tmp_path / "plain", run))
    assert not any(path.startswith("THROUGH") for path in plain.paths)
    assert not (tmp_path / "plain" / "units" / f"through-{SEED}").exists()
    for path in plain.paths:
        assert (more.policy[path] == plain.policy[path]).all()  # sessions of their own


def test_exact_training_with_learned_steps_replays_by_the_rule_it_learned(tmp_path):
    out = tmp_path / "exact"
    rule = "sgd:0.05:decay=0.01"
    options = ("--through", "exact", "--window", "4", "--step-rate", "0.1", "--through-rule", rule)
    assert study(out, *options) == 0
    state = SlowState.from_bytes(Run(out).unit_file(f"through-{SEED}", "slow.safetensors"))
    learned = parse_rule(state.rule)
    assert learned.decay == 0.01
    assert learned.step_size != 0.05
    rows = [
        row
        for path in sorted(out.glob("units/*audit-*/updates.parquet"))
        for row in from_parquet(path.read_bytes(), "updates")
    ]
    assert {"THROUGH_P1M1", "THROUGH_P1M0"} <= {row["path"] for row in rows}


def test_an_unknown_way_through_is_refused(tmp_path, capsys):
    assert study(tmp_path / "out", "--through", "second") == 1
    assert "give first-order or exact" in capsys.readouterr().err


def test_what_a_finished_run_did_is_taken_as_it_is(run, tmp_path, capsys):
    assert study(tmp_path / "plain") == 0
    through = ("--through", "first-order", "--window", "4")
    taken = tmp_path / "taken"
    assert study(taken, *through, "--taken-from", str(tmp_path / "plain")) == 0
    assert main(["verify", str(taken)]) == 0
    event = Run(taken).recorded("units taken")
    assert set(event["units"]) == set(Run(tmp_path / "plain").units())
    for unit in Run(run).units():  # as if all had been done here
        for name in ("predictions.parquet", "slow.safetensors"):
            if name in Run(run).unit_hashes(unit):
                assert Run(taken).unit_file(unit, name) == Run(run).unit_file(unit, name)
    other = ("--rank", "2", "--taken-from", str(tmp_path / "plain"))
    assert study(tmp_path / "other", *through, *other) == 1
    assert "has other rank" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_the_first_updates_may_be_the_papers(run, tmp_path):
    out = tmp_path / "half"
    assert study(out, "--through", "first-order", "--window", "4", "--through-share", "0.5") == 0
    fitted, first, through = (
        SlowState.from_bytes(Run(out).unit_file(f"{kind}-{SEED}", "slow.safetensors"))
        for kind in ("fit", "through-labels", "through")
    )
    assert through.version == fitted.version
    assert 0 < first.version < fitted.version
    curves = [Run(out).unit_json(f"{k}-{SEED}", "curve.json") for k in ("fit", "through-labels")]
    assert curves[0][: first.version] == curves[1]  # the same labels in the same order
    left = fitted.version - first.version
    assert len(Run(out).unit_json(f"through-{SEED}", "curve.json")) == left
