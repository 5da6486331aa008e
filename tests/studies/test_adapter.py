import json
import shutil
import warnings

import pytest
import torch
from safetensors.torch import load_file, save_file

import larc
from larc.domains.programs import split_groups
from larc.studies.programs.adapter import historical_examples, train_adapter
from larc.studies.programs.settings import AdapterSettings
from larc.substrate.adapter import LINEAGE_FILE

pytest.importorskip("peft")


@pytest.fixture(scope="module")
def adapter(tmp_path_factory):
    out = tmp_path_factory.mktemp("adapter") / "omega"
    settings = AdapterSettings(substrate="tiny", out=str(out), updates=30, learning_rate=0.01)
    losses = []
    train_adapter(settings, lambda _, loss: losses.append(loss))
    return out, losses


def test_training_an_adapter_lowers_its_loss_and_writes_a_peft_directory(adapter):
    out, losses = adapter
    assert sum(losses[-5:]) < sum(losses[:5]) - 0.5
    config = json.loads((out / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"]) == (16, 32)
    assert config["layers_to_transform"] == [3]  # the upper third of four layers
    assert sorted(config["target_modules"]) == ["q_proj", "v_proj"]
    assert config["base_model_name_or_path"] == "tiny"
    assert json.loads((out / "larc_adapter.json").read_text())["losses"] == losses


def test_an_adapter_becomes_part_of_the_frozen_substrate(adapter, tiny):
    out, _ = adapter
    adapted = larc.load_substrate("tiny", adapter=out)
    assert adapted.identity.adapter
    assert adapted.identity.weights == tiny.identity.weights
    assert adapted.identity.digest != tiny.identity.digest
    assert adapted.identity == larc.load_substrate("tiny", adapter=out).identity
    assert not any(parameter.requires_grad for parameter in adapted.model.parameters())
    ids = torch.arange(2, 30)[None]
    assert not torch.equal(adapted.model(ids).logits, tiny.model(ids).logits)
    with pytest.raises(larc.LarcError, match="belongs to substrate"):
        larc.Learner(adapted, larc.SlowState.initial(tiny, seed=1))
    for boundary in (0, 2):
        slow = larc.SlowState.initial(adapted, seed=1, boundary=boundary)
        episode = larc.Learner(adapted, slow).begin()
        before = episode.read("pick ", ["a", "b"])
        episode.update(larc.Label("pick ", ["a", "b"], 1))
        assert episode.read("pick ", ["a", "b"])[1] > before[1]
    assert adapted.packs(100)


def test_a_directory_that_holds_no_adapter_is_refused(tmp_path):
    with pytest.raises(larc.LarcError, match=r"no adapter_config\.json"):
        larc.load_substrate("tiny", adapter=tmp_path)


def test_an_adapter_of_another_shape_is_refused(adapter, tmp_path):
    from larc.substrate.tiny import byte_tokenizer, random_llama

    model, foreign = tmp_path / "model", tmp_path / "foreign"
    random_llama(width=64).save_pretrained(model)
    byte_tokenizer().save_pretrained(model)
    with pytest.raises(larc.LarcError, match="trained on another model"):
        larc.load_substrate(model, adapter=adapter[0])
    shutil.copytree(adapter[0], foreign)
    (foreign / "larc_adapter.json").unlink()  # a foreign adapter does not say
    with pytest.raises(larc.LarcError, match="does not fit this model"):
        larc.load_substrate(model, adapter=foreign)


def test_an_adapter_that_is_not_whole_is_refused(adapter, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(adapter[0], copy)
    weights = copy / "adapter_model.safetensors"
    tensors = load_file(weights)
    tensors.pop(sorted(tensors)[0])
    save_file(tensors, weights)
    with pytest.raises(larc.LarcError, match="is not as it was trained; get a whole copy"):
        larc.load_substrate("tiny", adapter=copy)
    (copy / LINEAGE_FILE).unlink()  # as an adapter of somebody else's
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PEFT warns and would go on
        with pytest.raises(larc.LarcError, match=r"this model takes \d+; get a whole copy"):
            larc.load_substrate("tiny", adapter=copy)
    weights.write_bytes(b"damaged")
    with pytest.raises(larc.LarcError, match="does not fit"):
        larc.load_substrate("tiny", adapter=copy)


def test_the_scale_is_part_of_an_adapters_identity(adapter, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(adapter[0], copy)
    config = json.loads((copy / "adapter_config.json").read_text())
    (copy / "adapter_config.json").write_text(json.dumps({**config, "lora_alpha": 16}))
    (copy / LINEAGE_FILE).unlink()
    identities = [larc.load_substrate("tiny", adapter=p).identity for p in (adapter[0], copy)]
    assert identities[0].adapter != identities[1].adapter


@pytest.mark.parametrize("wrong", [{"updates": 0}, {"batch": 0}, {"seed": -1}])
def test_settings_that_train_nothing_are_refused(tmp_path, wrong):
    settings = AdapterSettings(substrate="tiny", out=str(tmp_path / "a"), **wrong)
    with pytest.raises(larc.LarcError, match="must be positive"):
        train_adapter(settings)
    assert not (tmp_path / "a").exists()


def test_an_existing_directory_is_not_overwritten(tmp_path):
    with pytest.raises(larc.LarcError, match="exists already"):
        train_adapter(AdapterSettings(substrate="tiny", out=str(tmp_path)))


def test_examples_come_from_the_historical_groups_only():
    programs = {text.split("\n")[0] for text, _ in historical_examples(seed=1)}
    held_out = {
        f"Program: {candidate}"
        for split in ("training", "development", "reserved", "preflight")
        for group in split_groups(split)
        for candidate in group.candidates
    }
    assert programs
    # An arithmetic pair is in one split only, and each of its programs names both numbers.
    assert not {p for p in programs & held_out if "mul" in p}
