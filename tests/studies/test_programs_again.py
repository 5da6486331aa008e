"""Program studies that go on from another's states, and ones that choose settings."""

import pytest

import larc
from larc.cli import main
from larc.programs import split_groups
from larc.studies.parquet import from_parquet
from larc.studies.runs import Run

SMALL = ["--seeds", "2026092811", "--training-groups", "1", "--development-groups", "1"]


def study(out, *options):
    return main(
        ["study", "programs", "--preset", "smoke", *SMALL, *map(str, options), "--out", str(out)]
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("first") / "run"
    assert study(out, "--updates", 2) == 0
    return out


def predictions(path, arm):
    return Run(path).unit_file(f"predict-{arm}-2026092811", "predictions.parquet")


def test_states_are_used_as_they_are(trained, tmp_path):
    out = tmp_path / "again"
    assert study(out, "--start", trained, "--updates", 0) == 0
    for arm in ("static", "adapted", "untrained"):
        assert predictions(out, arm) == predictions(trained, arm)
    other = tmp_path / "descending"
    descent = ("--rule", "descent:1.0", "--inner-steps", 4)
    assert study(other, "--start", trained, "--updates", 0, *descent) == 0
    assert predictions(other, "adapted") != predictions(trained, "adapted")
    assert main(["verify", str(other)]) == 0


def test_training_goes_on_from_them(trained, tmp_path):
    out = tmp_path / "more"
    assert study(out, "--start", trained, "--updates", 1) == 0
    content = Run(out).unit_file("train-adapted-2026092811", "slow.safetensors")
    assert larc.SlowState.from_bytes(content).version == 3


def test_states_of_another_kind_are_refused_before_anything_is_made(trained, tmp_path, capsys):
    out = tmp_path / "other"
    assert study(out, "--start", trained, "--boundary", 1) == 1
    assert "give --boundary 0 --rank 4" in capsys.readouterr().err
    assert not out.exists()


def test_settings_are_chosen_on_preflight_groups(tmp_path):
    out = tmp_path / "choosing"
    assert study(out, "--updates", 0, "--held-out", "preflight") == 0
    rows = from_parquet(Run(out).unit_file("queries", "queries.parquet"), "queries")
    apart = {group.name for group in split_groups("preflight")}
    assert len(rows) == 8
    assert {row["group"] for row in rows} <= apart
