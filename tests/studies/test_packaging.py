"""The initialization package: a run's slow states, with their whole story."""

import json

import pytest
import torch
from huggingface_hub import ModelCard

import larc
from larc.cli import main
from larc.io.hashes import sha256
from larc.io.json_files import as_json
from larc.runs.identity import provenance
from larc.runs.run import Run
from larc.settings import as_values
from larc.studies.ci.settings import PRESETS
from larc.studies.episodic.results import load_results
from larc.studies.packaging import Choice, chosen, selected_states, write_package
from larc.studies.programs.adapter import train_adapter
from larc.studies.programs.settings import AdapterSettings
from larc.studies.running import verify_run as verify

SEEDS = (2026092811, 2026092812)


@pytest.fixture(scope="module")
def package(smoke, tmp_path_factory):
    out = tmp_path_factory.mktemp("packages") / "package"
    assert main(["package", str(smoke), "--objective", "adapted", "--out", str(out)]) == 0
    return out


def test_a_package_holds_the_states_of_every_seed(smoke, package, tiny):
    for seed in SEEDS:
        content = Run(smoke).unit_file(f"train-adapted-{seed}", "slow.safetensors")
        loaded = larc.SlowState.from_pretrained(package, seed=seed, substrate=tiny)
        assert loaded.to_bytes() == content
    assert larc.SlowState.from_pretrained(package).seed == SEEDS[0]
    assert {path.name for path in package.iterdir()} == {
        *("README.md", "LICENSE", "config.json", "lineage.json", "evaluation"),
        *("model.safetensors", f"seed-{SEEDS[1]}.safetensors"),
    }


def test_the_card_is_one_the_hub_can_read_and_tells_the_story(smoke, package):
    card = ModelCard.load(package / "README.md")
    assert card.data.license == "apache-2.0"
    assert card.data.library_name == "larc"
    assert "larc" in card.data.tags
    for part in ("Evaluation", "Lineage", "Environment", "Licence"):
        assert f"## {part}" in card.text
    assert "larc study programs --preset smoke" in card.text
    assert sha256((smoke / "manifest.json").read_bytes()) in card.text
    assert "| torch |" in card.text
    assert (smoke / "tables" / "contrasts.md").read_text().strip() in card.text
    assert "Apache License" in (package / "LICENSE").read_text()


def test_the_lineage_holds_every_identity(smoke, package):
    lineage = json.loads((package / "lineage.json").read_text())
    assert lineage["manifest"] == json.loads((smoke / "manifest.json").read_text())
    assert set(lineage["manifest"]["identities"]) == {
        *("adapter", "configuration", "data", "evidence", "factors"),
        *("predictions", "queries", "sources", "substrate"),
    }
    assert lineage["config"]["settings"]["rank"] == 4
    assert [entry["event"] for entry in lineage["evidence"]][-1] == "queries written"
    assert lineage["objective"] == "adapted"
    assert [state["seed"] for state in lineage["states"]] == list(SEEDS)


def test_the_objective_is_the_selected_one_unless_another_is_named(smoke, tmp_path, capsys):
    selected = load_results(Run(smoke)).selection.chosen
    arguments = ["package", str(smoke), "--out", str(tmp_path / "out")]
    assert main(arguments) == (1 if selected is None else 0)
    if selected is None:
        assert "Name one with --objective" in capsys.readouterr().err
    else:
        assert json.loads((tmp_path / "out/lineage.json").read_text())["objective"] == selected
    arguments = ["package", str(smoke), "--out", str(tmp_path / "b"), "--objective", "best"]
    assert main(arguments) == 1
    assert "it has static, adapted" in capsys.readouterr().err
    assert not (tmp_path / "b").exists()


def test_a_package_is_never_made_over_another_nor_from_a_changed_run(
    smoke, package, tmp_path, capsys
):
    before = (package / "README.md").read_bytes()
    arguments = ["package", str(smoke), "--objective", "adapted", "--out"]
    assert main([*arguments, str(package)]) == 1
    assert "exists already" in capsys.readouterr().err
    assert (package / "README.md").read_bytes() == before
    queries = smoke / "units" / "queries" / "queries.parquet"
    content = queries.read_bytes()
    queries.write_bytes(content[:-1])
    try:
        assert main([*arguments, str(tmp_path / "new")]) == 1
    finally:
        queries.write_bytes(content)
    assert "queries.parquet was changed" in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


def fitted_run(path, substrate, **settings):
    """A finished run of the CI study as far as its states go: nothing was predicted in it."""
    values = {**as_values(PRESETS["smoke"]), **settings, "seeds": [7]}
    run = Run.start(path, "ci", values, data="d" * 64)
    slow = larc.SlowState.initial(substrate, seed=7)
    files = {"slow.safetensors": slow.to_bytes()}
    files["provenance.json"] = as_json(provenance(substrate))
    run.finish_unit("fit-7", files)
    run.record("training finished", {"slow": {"fit-7": sha256(files["slow.safetensors"])}})
    run.record("predictions written", {"predictions": {}})
    run.close()
    return run, slow


def test_the_fitted_states_of_a_ci_run_are_packaged(tiny, tmp_path):
    run, slow = fitted_run(tmp_path / "run", tiny)
    (state,) = selected_states(run, "")
    assert state.digest == slow.digest
    assert chosen(run, None) == Choice("", "")
    with pytest.raises(larc.LarcError, match="has one objective"):
        chosen(run, "static")


def test_a_state_of_another_substrate_than_its_units_is_noticed(tiny, tmp_path):
    run, slow = fitted_run(tmp_path / "run", tiny)
    foreign = larc.SlowState(slow.factors, 0, 0, "e" * 64, 7, slow.origin).to_bytes()
    unit = run.path / "units" / "fit-7"
    (unit / "slow.safetensors").write_bytes(foreign)
    done = {**run.unit_hashes("fit-7"), "slow.safetensors": sha256(foreign)}
    (unit / "done.json").write_bytes(as_json(done))
    (run.path / "evidence.jsonl").unlink()
    run.record("training finished", {"slow": {"fit-7": sha256(foreign)}})
    run.record("predictions written", {"predictions": {}})
    run.close()
    with pytest.raises(larc.LarcError, match="does not belong to the substrate"):
        verify(run.path)


def test_the_adapter_goes_with_the_states_if_it_is_the_one_they_were_trained_with(tmp_path):
    pytest.importorskip("peft")
    adapter, run = tmp_path / "adapter", tmp_path / "run"
    train_adapter(AdapterSettings(substrate="tiny", out=str(adapter), updates=1, batch=2))
    study = ["study", "programs", "--preset", "smoke", "--adapter", str(adapter), "--seeds", "7"]
    few = ["--updates", "1", "--training-groups", "1", "--development-groups", "1"]
    few += ["--objectives", "static", "--resamples", "20"]
    assert main([*study, *few, "--out", str(run)]) == 0
    out = write_package(Run(run), tmp_path / "out", "static")
    again = larc.load_substrate("tiny", adapter=out / "adapter")
    assert larc.SlowState.from_pretrained(out, substrate=again).seed == 7
    adapter.rename(tmp_path / "first")
    train_adapter(AdapterSettings(substrate="tiny", out=str(adapter), updates=1, batch=2, seed=1))
    with pytest.raises(larc.LarcError, match="not the adapter that"):
        write_package(Run(run), tmp_path / "other", "static")
    assert not (tmp_path / "other").exists()


def test_the_code_on_a_card_loads_states_of_another_precision(tmp_path):
    run, out = tmp_path / "run", tmp_path / "out"
    few = ["--updates", "1", "--training-groups", "1", "--development-groups", "1", "--seeds", "7"]
    few += ["--objectives", "static", "--resamples", "20", "--dtype", "bfloat16"]
    assert main(["study", "programs", "--preset", "smoke", *few, "--out", str(run)]) == 0
    write_package(Run(run), out, "static")
    card = (out / "README.md").read_text()
    code = card.split("```python\n")[1].split("```")[0]
    names = {}
    exec(code.replace("this directory, or its hub id", str(out)), names)
    assert names["slow"].seed == 7
    assert names["substrate"].dtype == torch.bfloat16
