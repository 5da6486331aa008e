"""An exported state computes what the live one does. Logits are compared with ``allclose`` at 2e-4
absolute and relative: they are of order ten, sums are formed in another order (``(A E^T)`` before
``B`` instead of after it), and float32 keeps seven digits through four layers; thirty layers of
SmolLM2 get 1e-3. The residual itself moves them by more than one."""

import copy
import json
import subprocess
import sys

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import larc
import larc.wrapper
from larc.cli import main
from larc.domains.programs import Group, policy_prompt
from larc.exporting import export_state
from larc.substrate.tiny import byte_tokenizer, random_llama
from tests.questions import PROMPTS, learner_on, random_factors

peft = pytest.importorskip("peft")

TOLERANCE = {"tiny": 2e-4, "smollm2-135m": 1e-3}
SCALE = {"tiny": 0.3, "smollm2-135m": 0.08}


def learned(substrate, boundary=0):
    learner = learner_on(substrate, boundary=boundary)
    episode = learner.begin()
    episode.factors = random_factors(substrate, 1, scale=SCALE.get(substrate.name, 0.3))
    return learner, episode


def live_logits(learner, episode, ids):
    with learner.active(episode), torch.no_grad():
        return learner.substrate.model(ids).logits


def check_peft(substrate, out):
    learner, episode = learned(substrate)
    done = export_state(substrate, episode, out, to="peft")
    ids = substrate.tokenizer(PROMPTS[2], return_tensors="pt")["input_ids"]
    base = copy.deepcopy(substrate.model)
    with torch.no_grad():
        plain = base(ids).logits
        with pytest.warns(UserWarning, match="tie_word_embeddings"):  # the head stays as it was
            loaded = peft.PeftModel.from_pretrained(base, str(out))
        logits = loaded(ids).logits
    live, near = live_logits(learner, episode, ids), TOLERANCE[substrate.name]
    torch.testing.assert_close(logits, live, atol=near, rtol=near)
    assert float((plain - live).abs().max()) > 1
    assert done.difference < near
    return loaded


def check_merged(substrate, out):
    learner, episode = learned(substrate)
    before = substrate.identity
    done = export_state(substrate, episode, out, to="merged")
    model, tokenizer = (
        loader.from_pretrained(out) for loader in (AutoModelForCausalLM, AutoTokenizer)
    )
    ids = tokenizer(PROMPTS[2], return_tensors="pt")["input_ids"]
    assert torch.equal(ids, substrate.tokenizer(PROMPTS[2], return_tensors="pt")["input_ids"])
    live, near = live_logits(learner, episode, ids), TOLERANCE[substrate.name]
    with torch.no_grad():
        torch.testing.assert_close(model(ids).logits, live, atol=near, rtol=near)
    assert done.difference < near
    original = substrate.model
    assert torch.equal(model.lm_head.weight, original.lm_head.weight)
    assert not torch.equal(model.model.embed_tokens.weight, original.model.embed_tokens.weight)
    assert model.config.tie_word_embeddings is False
    # The substrate is what it was, its head still tied.
    assert original.lm_head.weight.data_ptr() == original.model.embed_tokens.weight.data_ptr()
    assert original.config.tie_word_embeddings is True
    assert larc.substrate.identity.identify(original, substrate.tokenizer) == before
    return learner, episode, model


def check_generation(learner, episode, model, prompt, length):
    """The live state and the plain model say the same tokens, greedily and with their caches."""
    ids = learner.substrate.tokenizer(prompt, return_tensors="pt")["input_ids"]
    how = {"max_new_tokens": length, "min_new_tokens": length, "do_sample": False}
    how["attention_mask"] = torch.ones_like(ids)
    plain = learner.substrate.model.generate(ids, **how)
    with learner.active(episode):
        live = learner.substrate.model.generate(ids, **how)
    assert torch.equal(model.generate(ids, **how), live)
    assert not torch.equal(plain, live)


def test_an_exported_adapter_gives_the_logits_of_the_live_state(tiny, tmp_path):
    loaded = check_peft(tiny, tmp_path / "adapter")
    config = loaded.peft_config["default"]
    assert (config.r, config.lora_alpha) == (4, 4)
    assert config.base_model_name_or_path == "tiny"


def test_an_exported_model_gives_the_logits_and_the_text_of_the_live_state(tiny, tmp_path):
    learner, episode, model = check_merged(tiny, tmp_path / "model")
    check_generation(learner, episode, model, PROMPTS[0], length=40)


@pytest.mark.smollm2
def test_the_real_model_is_exported_to_peft(smollm2, tmp_path):
    check_peft(smollm2, tmp_path / "adapter")


@pytest.mark.smollm2
def test_the_real_model_is_exported_to_a_plain_model_that_says_the_same(smollm2, tmp_path):
    learner, episode, model = check_merged(smollm2, tmp_path / "model")
    prompt = policy_prompt(Group("arithmetic", (2, 3)))
    check_generation(learner, episode, model, prompt, length=8)


@pytest.mark.parametrize("to", ["peft", "merged"])
def test_bfloat16_and_an_untied_head_are_exported_too(tmp_path, to):
    random_llama(tied=False).save_pretrained(tmp_path / "untied")
    byte_tokenizer().save_pretrained(tmp_path / "untied")
    substrate = larc.load_substrate(tmp_path / "untied", dtype="bfloat16")
    _, episode = learned(substrate)
    done = export_state(substrate, episode, tmp_path / to, to=to)
    # The embeddings of both are rounded to bfloat16 once, from the same float32 sum but for its
    # order: a hundredth of the logits' spread is what one unit in the last place comes to.
    assert done.difference < 1e-2
    if to == "merged":
        model = AutoModelForCausalLM.from_pretrained(tmp_path / to)
        assert model.dtype == torch.bfloat16
        assert torch.equal(model.lm_head.weight, substrate.model.lm_head.weight)


def test_a_slow_state_a_package_and_an_episode_are_exported_from_files(tiny, tmp_path, capsys):
    learner, episode = learned(tiny)
    episode.save(tmp_path / "episode")
    slow = learner.slow.advanced(episode.factors)
    (tmp_path / "slow").write_bytes(slow.to_bytes())
    slow.save_pretrained(tmp_path / "package")
    weights = {}
    for name in ("episode", "slow", "package"):
        command = ["export", str(tmp_path / name), "--to", "merged", "--substrate", "tiny"]
        assert main([*command, "--out", str(tmp_path / f"{name}-model"), "--json"]) == 0
        report = json.loads(capsys.readouterr().out)
        assert report["out"] == str(tmp_path / f"{name}-model")
        assert report["form"] == "merged"
        assert 0 <= report["difference"] < 1e-4
        weights[name] = (tmp_path / f"{name}-model" / "model.safetensors").read_bytes()
    assert weights["episode"] == weights["slow"] == weights["package"]


def test_a_substrate_with_an_adapter_is_merged_with_both(tiny, tmp_path):
    """The first export, loaded as a frozen adapter, becomes part of what the second is made on."""
    learner, episode = learned(tiny)
    export_state(tiny, episode, tmp_path / "first", to="peft")
    with pytest.warns(UserWarning, match="tie_word_embeddings"):
        adapted = larc.load_substrate("tiny", adapter=tmp_path / "first")
    second, fast = learned(adapted)
    with pytest.raises(larc.LarcError, match="has an adapter of its own"):
        export_state(adapted, fast, tmp_path / "no", to="peft")
    export_state(adapted, fast, tmp_path / "both", to="merged")
    ids = torch.arange(2, 60)[None]
    with torch.no_grad():
        logits = AutoModelForCausalLM.from_pretrained(tmp_path / "both")(ids).logits
    torch.testing.assert_close(logits, live_logits(second, fast, ids), atol=2e-4, rtol=2e-4)
    assert float((logits - live_logits(learner, episode, ids)).abs().max()) > 1


@pytest.mark.parametrize("to", ["peft", "merged"])
def test_a_state_inside_the_model_is_refused(tiny, tmp_path, to):
    _, episode = learned(tiny, boundary=2)
    with pytest.raises(larc.LarcError, match="before layer 2, which is no change of weights"):
        export_state(tiny, episode, tmp_path / "out", to=to)
    assert not list(tmp_path.iterdir())


#: Loads an export and says its logits and a text, in a process that has no larc.
ALONE = """
import sys
sys.modules["larc"] = None
out, saved = sys.argv[1:]
sys.path.insert(0, out)
import torch
from wrapper import load
model, ids = load(), torch.arange(2, 60)[None]
with torch.no_grad():
    logits = model(ids).logits
text = model.generate(ids, max_new_tokens=12, min_new_tokens=12, do_sample=False)
torch.save((logits, text), saved)
"""


def test_a_state_inside_the_model_leaves_in_a_wrapper(tmp_path):
    """In plain transformers, in another process; then in a model that has a LoRA of PEFT."""
    random_llama().save_pretrained(tmp_path / "base")
    byte_tokenizer().save_pretrained(tmp_path / "base")
    substrate = larc.load_substrate(tmp_path / "base")
    learner, episode = learned(substrate, boundary=2)
    done = export_state(substrate, episode, tmp_path / "out", to="wrapper")
    assert done.difference < 1e-6
    line = [sys.executable, "-B", "-c", ALONE, tmp_path / "out", tmp_path / "logits"]
    subprocess.run(line, check=True, timeout=300, capture_output=True, cwd=tmp_path)
    logits, text = torch.load(tmp_path / "logits")
    ids = torch.arange(2, 60)[None]
    near = {"atol": 2e-4, "rtol": 2e-4}
    torch.testing.assert_close(logits, live_logits(learner, episode, ids), **near)
    how = {"max_new_tokens": 12, "min_new_tokens": 12, "do_sample": False}
    with learner.active(episode):
        assert torch.equal(text, substrate.model.generate(ids, **how))
    assert not torch.equal(text, substrate.model.generate(ids, **how))
    # PEFT: the substrate with an adapter is the same model with the same LoRA.
    config = peft.LoraConfig(r=2, target_modules=["v_proj"], init_lora_weights=False)
    torch.manual_seed(1)
    peft.get_peft_model(random_llama(), config).save_pretrained(tmp_path / "lora")
    base = AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    adapted = peft.PeftModel.from_pretrained(base, str(tmp_path / "lora"))
    with_lora = larc.load_substrate(tmp_path / "base", adapter=tmp_path / "lora")
    second, fast = learned(with_lora, boundary=2)
    fast.factors = episode.factors
    with torch.no_grad():
        together = larc.wrapper.wrap(adapted, tmp_path / "out")(ids).logits
    torch.testing.assert_close(together, live_logits(second, fast, ids), **near)
    assert float((together - logits).abs().max()) > 0.1
    with pytest.raises(larc.LarcError, match="an adapter of its own"):
        export_state(with_lora, fast, tmp_path / "no", to="wrapper")
    with pytest.raises(ValueError, match="has no layer"):
        larc.wrapper.wrap(torch.nn.Linear(2, 2), tmp_path / "out")


def test_a_change_of_weights_needs_no_wrapper(tiny, tmp_path):
    _, episode = learned(tiny)
    with pytest.raises(larc.LarcError, match="export it to peft or merged"):
        export_state(tiny, episode, tmp_path / "out", to="wrapper")
    assert not list(tmp_path.iterdir())


@pytest.mark.smollm2
def test_a_state_inside_the_real_model_leaves_in_a_wrapper(smollm2, tmp_path):
    learner, episode = learned(smollm2, boundary=20)
    export_state(smollm2, episode, tmp_path / "out", to="wrapper")
    named = json.loads((tmp_path / "out/wrapper.json").read_text())["base_model"]
    model = larc.wrapper.wrap(AutoModelForCausalLM.from_pretrained(named), tmp_path / "out")
    ids = smollm2.tokenizer(PROMPTS[2], return_tensors="pt")["input_ids"]
    with torch.no_grad():
        logits = model(ids).logits
    torch.testing.assert_close(logits, live_logits(learner, episode, ids), atol=1e-3, rtol=1e-3)
    assert float((logits - smollm2.model(ids).logits).abs().max()) > 1


def test_what_cannot_be_exported_is_refused_and_nothing_is_written(tiny, tmp_path):
    _, episode = learned(tiny)
    random_llama(seed=3).save_pretrained(tmp_path / "other")
    byte_tokenizer().save_pretrained(tmp_path / "other")
    (tmp_path / "note").write_text("not a state")
    out = tmp_path / "out"
    for state, substrate, to, message in (
        (episode, larc.load_substrate(tmp_path / "other"), "peft", "belongs to substrate"),
        (episode, tiny, "onnx", "choose peft, merged, wrapper"),
        (tmp_path / "absent", tiny, "peft", "there is no file"),
        (tmp_path / "note", tiny, "peft", "damaged or foreign"),
    ):
        with pytest.raises(larc.LarcError, match=message):
            export_state(substrate, state, out, to=to)
    with pytest.raises(larc.LarcError, match="exists already"):
        export_state(tiny, episode, tmp_path / "note", to="peft")
    with pytest.raises(larc.LarcError, match="could not be made"):
        export_state(tiny, episode, tmp_path / "note" / "out", to="peft")
    assert {path.name for path in tmp_path.iterdir()} == {"other", "note"}


def test_a_model_that_does_more_with_its_embeddings_is_noticed(tmp_path):
    """A model whose embedding adds to what its table says: the export must not be believed."""

    class Shifted(torch.nn.Embedding):
        def forward(self, tokens):
            return super().forward(tokens) + 1.0

    substrate = larc.load_substrate("tiny")
    table = substrate.model.get_input_embeddings()
    shifted = Shifted(*table.weight.shape, _weight=table.weight)
    substrate.model.set_input_embeddings(shifted)
    _, episode = learned(substrate)
    with pytest.raises(larc.LarcError, match="would differ from the state"):
        export_state(substrate, episode, tmp_path / "out", to="merged")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("to", ["peft", "merged"])
@pytest.mark.parametrize("boundary", [0, 2])
def test_a_state_on_a_weight_is_a_plain_lora(tmp_path, to, boundary):
    random_llama().save_pretrained(tmp_path / "base")
    byte_tokenizer().save_pretrained(tmp_path / "base")
    substrate = larc.load_substrate(tmp_path / "base", acts_on="self_attn.o_proj")
    learner, episode = learned(substrate, boundary=boundary)
    export_state(substrate, episode, tmp_path / "out", to=to)
    ids = torch.arange(2, 60)[None]
    loader = peft.AutoPeftModelForCausalLM if to == "peft" else AutoModelForCausalLM
    with torch.no_grad():
        logits = loader.from_pretrained(tmp_path / "out")(ids).logits
    torch.testing.assert_close(logits, live_logits(learner, episode, ids), atol=2e-4, rtol=2e-4)
    assert float((logits - substrate.model(ids).logits).abs().max()) > 0.1


def test_peft_finds_the_base_model_of_an_export(tmp_path):
    random_llama().save_pretrained(tmp_path / "base")
    byte_tokenizer().save_pretrained(tmp_path / "base")
    substrate = larc.load_substrate(tmp_path / "base")
    learner, episode = learned(substrate)
    export_state(substrate, episode, tmp_path / "out", to="peft")
    ids = torch.arange(2, 60)[None]
    with pytest.warns(UserWarning, match="tie_word_embeddings"), torch.no_grad():
        logits = peft.AutoPeftModelForCausalLM.from_pretrained(tmp_path / "out")(ids).logits
    torch.testing.assert_close(logits, live_logits(learner, episode, ids), atol=2e-4, rtol=2e-4)


@pytest.mark.smollm2
def test_peft_finds_a_preset(smollm2, tmp_path):
    _, episode = learned(smollm2)
    export_state(smollm2, episode, tmp_path / "out", to="peft")
    named = json.loads((tmp_path / "out/adapter_config.json").read_text())
    base = named["base_model_name_or_path"]
    assert AutoTokenizer.from_pretrained(base).eos_token == smollm2.tokenizer.eos_token


@pytest.mark.parametrize("to", ["peft", "merged", "wrapper"])
def test_a_full_disk_is_told_and_leaves_nothing(tiny, tmp_path, to):
    """The same as `run_limited` of the studies: files may not be larger than so many bytes."""
    slow = larc.SlowState.initial(tiny, seed=1, rank=16, boundary=2 * (to == "wrapper"))
    slow.save_pretrained(tmp_path / "slow")
    code = (
        "import resource, signal, sys; from larc.cli import main;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000)); sys.exit(main(sys.argv[1:]))"
    )
    line = ["export", tmp_path / "slow", "--to", to, "--out", tmp_path / "out"]
    done = subprocess.run(
        [sys.executable, "-B", "-c", code, *map(str, line), "--substrate", "tiny"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert "could not be written" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["slow"]
