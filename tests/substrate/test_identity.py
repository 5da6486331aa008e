import torch

import larc
from larc.substrate.frozen import Substrate
from larc.substrate.identity import identify
from larc.substrate.tiny import byte_tokenizer, random_llama


def test_the_same_model_has_the_same_identity_and_any_change_another():
    plain = identify(random_llama(), byte_tokenizer())
    assert plain == identify(random_llama(), byte_tokenizer())
    assert plain.adapter == ""

    model = random_llama()
    with torch.no_grad():
        model.model.layers[3].mlp.up_proj.weight[0, 0].add_(1e-7)
    assert identify(model, byte_tokenizer()).weights != plain.weights

    model = random_llama()
    model.config.rms_norm_eps = 1e-3
    assert identify(model, byte_tokenizer()).config != plain.config
    assert identify(model, byte_tokenizer()).weights == plain.weights

    tokenizer = byte_tokenizer()
    tokenizer.add_tokens(["<more>"])
    assert identify(random_llama(), tokenizer).tokenizer != plain.tokenizer


def test_identity_does_not_depend_on_where_a_model_was_loaded_from(tmp_path, tiny):
    tiny.model.save_pretrained(tmp_path)
    tiny.tokenizer.save_pretrained(tmp_path)
    assert larc.load_substrate(tmp_path).identity == tiny.identity


def test_precision_is_part_of_the_identity(tiny):
    narrow = larc.load_substrate("tiny", dtype="bfloat16")
    assert narrow.identity.weights != tiny.identity.weights
    assert narrow.identity.config == tiny.identity.config


def test_an_untied_copy_is_another_substrate(tiny):
    untied = Substrate("untied", random_llama(tied=False), byte_tokenizer())
    assert untied.identity.digest != tiny.identity.digest


def test_how_a_tokenizer_was_called_is_not_part_of_what_it_is():
    tokenizer = byte_tokenizer()
    plain = identify(random_llama(), tokenizer)
    tokenizer(["a", "bcd"], padding=True, truncation=True, max_length=2)
    assert identify(random_llama(), tokenizer) == plain


def test_tied_weights_are_hashed_once(tmp_path):
    tied = random_llama()
    names = dict(tied.state_dict())
    assert names["lm_head.weight"].data_ptr() == names["model.embed_tokens.weight"].data_ptr()
    untied = random_llama(tied=False)
    with torch.no_grad():
        untied.load_state_dict(tied.state_dict())
    assert identify(untied, byte_tokenizer()).weights != identify(tied, byte_tokenizer()).weights
