import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    Gemma3Config,
    Gemma3ForConditionalGeneration,
)

import larc
from larc import LarcError
from larc.substrate import views
from larc.substrate.frozen import Substrate
from larc.substrate.tiny import byte_tokenizer, random_llama

SMALL = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
}
ARCHITECTURES = {
    "llama": SMALL,
    "qwen2": {**SMALL, "use_sliding_window": False},
    "qwen3": SMALL,
    "mistral": SMALL,
    "gemma2": {**SMALL, "sliding_window": 16},  # scales embeddings, caps logits, two masks
    "gpt2": {"vocab_size": 64, "n_embd": 32, "n_layer": 3, "n_head": 4},
    "falcon": {
        k: v
        for k, v in SMALL.items()
        if k in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
    },
    "opt": {
        "vocab_size": 64,
        "hidden_size": 32,
        "ffn_dim": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "word_embed_proj_dim": 16,  # embeds narrower than it computes
    },
    "gpt_neox": {k: v for k, v in SMALL.items() if k not in ("num_key_value_heads", "head_dim")},
}


def build(name):
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        name, **ARCHITECTURES[name], bos_token_id=0, eos_token_id=0, pad_token_id=1
    )
    model = AutoModelForCausalLM.from_config(config).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.mul_(3 if parameter.ndim > 1 else 1)  # fresh weights are too small to see
    return model


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_two_halves_are_the_whole_model_on_common_architectures(name):
    model = build(name)
    tokens = torch.arange(20)[None] % 60
    with torch.no_grad():
        whole = model(input_ids=tokens, use_cache=False).logits[0]
        places = torch.arange(20)
        for boundary in range(1, 3):
            hidden = views.below(model, boundary)(input_ids=tokens)
            halves = views.above(model, boundary)(hidden, places)
            # The same operations on the same numbers; the head sees a flattened batch.
            torch.testing.assert_close(halves, whole, atol=1e-5, rtol=1e-5)
        embedded = model.get_input_embeddings()(tokens)
        some = torch.tensor([3, 17])
        chosen = views.above(model, 0)(embedded, some)
        torch.testing.assert_close(chosen, whole[some], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_states_learn_at_every_boundary_of_common_architectures(name):
    tokenizer = byte_tokenizer()
    ARCHITECTURES[name]["vocab_size"] = 258
    substrate = Substrate(name, build(name), tokenizer)
    for boundary in range(3):
        slow = larc.SlowState.initial(substrate, seed=1, boundary=boundary)
        learner = larc.Learner(substrate, slow, larc.SGD(5.0))
        episode = learner.begin()
        before = episode.read("pick one: ", ["left", "right"])
        episode.update(larc.Label("pick one: ", ["left", "right"], 0))
        assert episode.read("pick one: ", ["left", "right"])[0] > before[0]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("gpt_neo", {"attention_types": [[["global", "local"], 1]], "window_size": 16}),
        ("mistral", {"sliding_window": 16}),
    ],
)
def test_attention_that_reaches_only_so_far_is_noticed_on_long_rows(name, options):
    sizes = {"vocab_size": 258, "hidden_size": 32, "num_layers": 2, "num_heads": 4}
    if name == "mistral":
        sizes = {**SMALL, "vocab_size": 258}
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        name, **sizes, **options, bos_token_id=0, eos_token_id=0, pad_token_id=1
    )
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(5 if parameter.ndim > 1 else 1)  # so that attention matters
    substrate = Substrate(name, model, byte_tokenizer())
    assert substrate.packs(8)
    assert not substrate.packs(64)


@pytest.mark.parametrize("ran", [False, True])
def test_weights_that_a_model_would_rescale_in_place_stay(ran):
    """RWKV halves weights at its first evaluation, and a view of it would halve them again."""
    config = AutoConfig.for_model(
        "rwkv", vocab_size=258, hidden_size=32, num_hidden_layers=4, rescale_every=1
    )
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    ids = torch.arange(2, 20)[None]
    with torch.no_grad():
        expected = model(ids).logits if ran else None
    substrate = Substrate("rwkv", model, byte_tokenizer())
    episode = larc.Learner(substrate, larc.SlowState.initial(substrate, seed=1)).begin()
    reads = [episode.read("pick one: ", ["left", "right"]) for _ in range(2)]
    assert torch.equal(*reads)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    if expected is not None:
        with torch.no_grad():
            # Divisions by powers of two round nothing, but the norms' epsilon is not divided.
            torch.testing.assert_close(model(ids).logits, expected, atol=1e-2, rtol=1e-2)


def test_a_view_leaves_the_model_as_it_was():
    model = random_llama()
    names = [name for name, _ in model.named_modules()]
    layers = list(model.model.layers)
    views.above(model, 2, checkpointing=True)
    views.below(model, 1)
    assert [name for name, _ in model.named_modules()] == names
    assert all(a is b for a, b in zip(model.model.layers, layers, strict=True))


def test_halves_that_do_not_make_the_whole_are_refused():
    model = random_llama()

    class Odd(type(model.model.layers[0])):
        count = 0

        def forward(self, hidden_states, **kwargs):
            Odd.count += 1  # a layer that depends on more than its activations
            return super().forward(hidden_states, **kwargs) * (1 + Odd.count)

    model.model.layers[2].__class__ = Odd
    with pytest.raises(LarcError, match="cannot be entered before layer 1"):
        views.check_boundary(model, 1)


@pytest.mark.parametrize("boundary", [0, 2])
def test_checkpointing_gives_the_same_gradients(boundary):
    model = random_llama().requires_grad_(False).eval()
    torch.manual_seed(0)
    hidden = torch.randn(2, 9, 32)
    gradients = []
    for checkpointing in (False, True):
        leaf = hidden.clone().requires_grad_()
        run = views.above(model, boundary, checkpointing=checkpointing)
        run(leaf, torch.tensor([8, 17])).logsumexp(1).sum().backward()
        gradients.append(leaf.grad)
    # The same operations are done again, in the same order.
    assert torch.equal(*gradients)


def test_a_model_of_text_and_images_is_entered_at_any_layer():
    """Its sizes are those of its text part, not of the whole."""
    torch.manual_seed(0)
    text = {"vocab_size": 258, "hidden_size": 16, "intermediate_size": 32, "head_dim": 8}
    text |= {"num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 1}
    vision = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    vision |= {"num_attention_heads": 2, "image_size": 28, "patch_size": 14}
    config = Gemma3Config(
        text_config=text, vision_config=vision, mm_tokens_per_image=4, image_token_index=257
    )
    substrate = Substrate("gemma3", Gemma3ForConditionalGeneration(config), byte_tokenizer())
    for boundary in (0, 1):
        slow = larc.SlowState.initial(substrate, seed=1, boundary=boundary)
        episode = larc.Learner(substrate, slow).begin()
        assert episode.update(larc.Label("q", ["a", "b"], 0)).distance > 0
