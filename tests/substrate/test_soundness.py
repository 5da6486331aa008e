"""Models that cannot be scored with are refused when they are loaded."""

import pytest
import torch
from transformers import BertConfig, BertLMHeadModel

import larc
from larc.substrate.frozen import Substrate
from larc.substrate.tiny import byte_tokenizer, random_llama


def bert(*, is_decoder: bool) -> BertLMHeadModel:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=258,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        initializer_range=0.5,
        is_decoder=is_decoder,
    )
    return BertLMHeadModel(config)


def test_an_encoder_is_no_causal_model():
    with pytest.raises(larc.LarcError, match="no causal language model"):
        Substrate("bert", bert(is_decoder=False), byte_tokenizer())
    Substrate("bert", bert(is_decoder=True), byte_tokenizer())


def test_a_directory_with_an_encoder_is_refused(tmp_path):
    bert(is_decoder=False).save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(larc.LarcError, match="no causal language model"):
        larc.load_substrate(tmp_path)


def test_a_model_of_damaged_weights_is_refused():
    model = random_llama()
    with torch.no_grad():
        model.model.norm.weight[3] = torch.nan
    with pytest.raises(larc.LarcError, match="its weights are damaged"):
        Substrate("damaged", model, byte_tokenizer())


def test_a_state_that_gives_no_numbers_is_told():
    """One token's embedding is damaged, which no check at loading meets."""
    model = random_llama()
    with torch.no_grad():
        model.get_input_embeddings().weight[90] = torch.nan
    model.lm_head.weight = torch.nn.Parameter(random_llama().lm_head.weight.detach().clone())
    substrate = Substrate("damaged", model, byte_tokenizer())
    learner = larc.Learner(substrate, larc.SlowState.initial(substrate, seed=1))
    episode = learner.begin()
    texts = [chr(code) for code in range(33, 1000)]
    bad = next(text for text in texts if 90 in substrate.encoder.encode(text))
    with pytest.raises(larc.LarcError, match="gives no numbers"):
        episode.read(bad, ["a", "b"])
    with pytest.raises(larc.LarcError, match="not finite"):
        episode.update(larc.Label(bad, ["a", "b"], 0))
    assert episode.step == 0


def test_an_update_of_infinite_distance_is_refused(tiny):
    learner = larc.Learner(tiny, larc.SlowState.initial(tiny, seed=1), larc.SGD(0.1))
    episode = learner.begin()
    with pytest.raises(larc.LarcError, match="not finite"):
        episode.update(larc.CandidateLosses("q", ["a", "b"], [0, 1e30]))
    assert episode.step == 0
    assert episode.factors.equal(learner.slow.factors)
