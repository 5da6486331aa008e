"""Energies. Layouts that compute the same sums in another order agree to float32 rounding: 1e-5 on
energies of order ten."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers.processors import TemplateProcessing

import larc
from larc.cli import main
from larc.feedback import CandidateLosses, Label, expected_risk, label_cross_entropy
from larc.log_probabilities import log_probabilities
from larc.questions import ask
from larc.residual import Factors
from larc.scoring import chunks, energies, policy
from larc.substrate.frozen import Substrate
from larc.substrate.tiny import byte_tokenizer, random_llama
from tests.questions import CANDIDATES, LOSSES, PROMPTS, random_factors


def by_hand(substrate, slow, factors, prompt, candidate):
    """One candidate, one ordinary call of the model itself, one token at a time."""
    learner = larc.Learner(substrate, slow)
    episode = learner.begin()
    episode.factors = factors
    tokenizer = substrate.tokenizer
    start = tokenizer(prompt)["input_ids"]
    answer = [*tokenizer(candidate, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    with learner.active(episode), torch.no_grad():
        logits = substrate.model(torch.tensor([start + answer])).logits[0].float()
    total = sum(
        logits[len(start) - 1 + index].log_softmax(0)[token] for index, token in enumerate(answer)
    )
    return total / len(answer)


@pytest.mark.parametrize("boundary", [0, 1, 3])
@pytest.mark.parametrize("layout", ["packed", "plain", None])
def test_energies_are_mean_log_probabilities_with_the_end_of_sequence(tiny, boundary, layout):
    slow = larc.SlowState.initial(tiny, seed=1, boundary=boundary)
    states = [random_factors(tiny, seed) for seed in range(len(PROMPTS))]
    questions = [ask(tiny, prompt, CANDIDATES) for prompt in PROMPTS]
    with torch.no_grad():
        scores = energies(tiny, questions, Factors.stack(states), boundary, layout=layout)
    for prompt, factors, score in zip(PROMPTS, states, scores, strict=True):
        expected = [by_hand(tiny, slow, factors, prompt, text) for text in CANDIDATES]
        torch.testing.assert_close(score, torch.stack(expected), atol=1e-5, rtol=1e-5)


@pytest.mark.smollm2
@pytest.mark.parametrize("boundary", [0, 20])
def test_layouts_agree_on_the_real_model(smollm2, boundary):
    questions = [ask(smollm2, prompt, CANDIDATES) for prompt in PROMPTS[:2]]
    states = Factors.stack([random_factors(smollm2, seed, scale=0.05) for seed in range(2)])
    with torch.no_grad():
        packed = energies(smollm2, questions, states, boundary, layout="packed")
        plain = energies(smollm2, questions, states, boundary, layout="plain")
    torch.testing.assert_close(torch.cat(packed), torch.cat(plain), atol=1e-4, rtol=0)


@pytest.mark.parametrize("boundary", [0, 2])
def test_layouts_have_the_same_gradients(tiny, boundary):
    question = ask(tiny, PROMPTS[0], CANDIDATES)
    slopes = []
    for layout in ("packed", "plain"):
        leaf = random_factors(tiny, 3).leaf()
        scores = energies(tiny, [question], leaf, boundary, layout=layout)[0]
        expected_risk(scores, LOSSES).backward()
        slopes.append(leaf)
    torch.testing.assert_close(slopes[0].A.grad, slopes[1].A.grad, atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(slopes[0].B.grad, slopes[1].B.grad, atol=1e-6, rtol=1e-4)


def test_packing_shares_the_prompt_and_the_head_is_only_at_answers():
    substrate = larc.load_substrate("tiny")
    question = ask(substrate, "12345678", ["ab", "cd", "efg"])
    with torch.no_grad():
        energies(substrate, [question], random_factors(substrate, 1))
    # Eight of the prompt and 2 + 2 + 3 of the candidates (their ends are only predicted).
    assert substrate.ledger.total("mixer").physical == 15
    # One place after the prompt, shared, and one after each candidate token.
    assert substrate.ledger.total("head").physical == 8


def random_mamba():
    from transformers import MambaConfig, MambaForCausalLM

    torch.manual_seed(0)
    config = MambaConfig(
        vocab_size=258,
        hidden_size=32,
        state_size=4,
        num_hidden_layers=2,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=1,
    )
    return MambaForCausalLM(config)


def test_a_model_that_cannot_take_the_mask_falls_back_to_plain_rows():
    substrate = Substrate("mamba", random_mamba(), byte_tokenizer())
    assert not substrate.packs(64)
    assert repr(substrate).endswith("rows=plain)")
    slow = larc.SlowState.initial(substrate, seed=1)
    factors = random_factors(substrate, 1)
    question = ask(substrate, PROMPTS[1], CANDIDATES)
    with torch.no_grad():
        score = energies(substrate, [question], factors)[0]
    expected = [by_hand(substrate, slow, factors, PROMPTS[1], text) for text in CANDIDATES]
    torch.testing.assert_close(score, torch.stack(expected), atol=1e-5, rtol=1e-5)
    assert substrate.ledger.layouts == {"plain"}
    assert repr(substrate.ledger).endswith("rows plain>")
    shared = larc.load_substrate("tiny")
    shared.ledger.clear()
    with torch.no_grad():
        energies(shared, [ask(shared, PROMPTS[1], CANDIDATES)], random_factors(shared, 1))
    assert shared.ledger.layouts == {"packed"}
    assert repr(shared).endswith("rows=packed)")


def test_a_report_says_whether_candidates_shared_rows(tmp_path):
    directory = tmp_path / "mamba"
    random_mamba().save_pretrained(directory)
    byte_tokenizer().save_pretrained(directory)
    told = {"tiny": "shared a row of the model", str(directory): "had a row of the model each"}
    for number, (substrate, sentence) in enumerate(told.items()):
        out = tmp_path / f"run{number}"
        small = ["--preset", "smoke", "--seeds", "7", "--train", "40", "--substrate", substrate]
        assert main(["study", "stream", *small, "--out", str(out)]) == 0
        text = (out / "report.md").read_text()
        assert f"The candidates of a question {sentence}." in text


def test_a_prompt_begins_as_its_tokenizer_has_it_and_candidates_do_not():
    """One that puts a token before every text: once before the prompt, never before a candidate."""
    tokenizer = byte_tokenizer()
    tokenizer.bos_token = "<pad>"
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<pad> $A", special_tokens=[("<pad>", tokenizer.pad_token_id)]
    )
    substrate = Substrate("begins", random_llama(), tokenizer)
    question = ask(substrate, PROMPTS[1], CANDIDATES)
    assert question.prompt[0] == tokenizer.pad_token_id not in question.prompt[1:]
    assert all(tokenizer.pad_token_id not in candidate for candidate in question.candidates)
    factors = random_factors(substrate, 1)
    with torch.no_grad():
        score = energies(substrate, [question], factors)[0]
    slow = larc.SlowState.initial(substrate, seed=1)
    expected = [by_hand(substrate, slow, factors, PROMPTS[1], text) for text in CANDIDATES]
    torch.testing.assert_close(score, torch.stack(expected), atol=1e-5, rtol=1e-5)


def test_a_row_beyond_a_sliding_window_is_laid_out_plainly():
    from transformers import MistralConfig, MistralForCausalLM

    torch.manual_seed(0)
    config = MistralConfig(
        vocab_size=258,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        sliding_window=24,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=1,
    )
    substrate = Substrate("windowed", MistralForCausalLM(config), byte_tokenizer())
    slow = larc.SlowState.initial(substrate, seed=1)
    factors = random_factors(substrate, 2)
    for prompt, rows in (("short: ", 1), (PROMPTS[2], 2)):
        question = ask(substrate, prompt, ["one", "two"])
        substrate.ledger.entries.clear()
        with torch.no_grad():
            score = energies(substrate, [question], factors)[0]
        longest = len(question.prompt) + 3
        expected_positions = len(question.prompt) + 6 if rows == 1 else 2 * longest
        assert substrate.ledger.total("mixer").physical == expected_positions
        expected = [by_hand(substrate, slow, factors, prompt, text) for text in ("one", "two")]
        torch.testing.assert_close(score, torch.stack(expected), atol=1e-5, rtol=1e-5)


def test_a_tied_head_is_never_touched(tiny):
    assert tiny.model.lm_head.weight is tiny.model.get_input_embeddings().weight
    untied = Substrate("untied", random_llama(tied=False), byte_tokenizer())
    with torch.no_grad():  # the same numbers, in two tensors
        untied.model.load_state_dict(tiny.model.state_dict(), strict=False)
        untied.model.lm_head.weight.copy_(tiny.model.lm_head.weight)
    factors = random_factors(tiny, 5)
    with torch.no_grad():
        pair = [energies(s, [ask(s, "q: ", ["a", "b"])], factors)[0] for s in (tiny, untied)]
    assert torch.equal(*pair)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.integers(1, 400))
@settings(max_examples=50, deadline=None)
def test_chunks_cover_every_question_once_within_the_limit(lengths, limit):
    substrate = larc.load_substrate("tiny", chunk_positions=limit)
    questions = [ask(substrate, "x" * length, ["a", "b"]) for length in lengths]
    seen = []
    for chunk in chunks(substrate, questions):
        seen += chunk
        longest = max(len(questions[index].packed.rows[0].tokens) for index in chunk)
        assert len(chunk) == 1 or longest * len(chunk) <= limit
    assert sorted(seen) == list(range(len(lengths)))


def test_expected_risk_slope_in_energies_is_the_papers():
    scores = torch.tensor([0.3, -1.0, 0.5, 0.0], dtype=torch.float64, requires_grad=True)
    risk = expected_risk(scores, LOSSES)
    risk.backward()
    p = policy(scores.detach())
    expected = p * (torch.tensor(LOSSES, dtype=torch.float64) - risk.detach())
    torch.testing.assert_close(scores.grad, expected)


def test_cross_entropy_is_minus_the_log_of_the_policy():
    scores = torch.tensor([0.3, -1.0, 0.5])
    torch.testing.assert_close(label_cross_entropy(scores, 1), -policy(scores)[1].log())


@pytest.mark.parametrize("losses", [[0.0], [0, 1, 2], [0.0, float("nan")], [0.0, float("inf")]])
def test_losses_that_do_not_fit_are_refused(losses):
    with pytest.raises(larc.LarcError):
        CandidateLosses("q", ["a", "b"], losses)


@pytest.mark.parametrize("index", [-1, 2])
def test_labels_that_name_no_candidate_are_refused(index):
    with pytest.raises(larc.LarcError, match="names no candidate"):
        Label("q", ["a", "b"], index)


def test_log_probabilities_and_their_derivatives():
    """Against torch's own differences, twice; a token may be asked for twice at one place."""
    logits = torch.randn(3, 7, dtype=torch.float64, requires_grad=True)
    tokens = torch.tensor([[1, 2], [3, 3], [6, 0]])

    def of(values):
        return log_probabilities(values, tokens)

    assert torch.allclose(of(logits), logits.log_softmax(1).gather(1, tokens))
    assert torch.autograd.gradcheck(of, logits)
    assert torch.autograd.gradgradcheck(of, logits)


def test_candidates_of_one_question_are_split_over_rows_where_that_pays(tiny, monkeypatch):
    """A mask has the square of a row's length: 300 candidates of 30 tokens in one row are 80 MB."""
    candidates = [f"{number:03} {'x' * 26}" for number in range(300)]
    asked = ask(tiny, "Which of these? ", candidates)
    lengths = []
    logits = Substrate.logits

    def noting(self, hidden, rows, *others):
        lengths.append(hidden.shape[0] * hidden.shape[1])
        return logits(self, hidden, rows, *others)

    monkeypatch.setattr(Substrate, "logits", noting)
    factors = random_factors(tiny, 1)
    (scores,) = energies(tiny, [asked], factors)
    assert len(lengths) > 1
    assert max(lengths) <= tiny.chunk_positions
    assert sum(lengths) < 1.2 * len(asked.packed.rows[0].tokens)
    (whole,) = energies(tiny, [asked], factors, layout="packed")
    assert torch.allclose(scores, whole, atol=1e-4)
    # Every other question is one call, as it always was.
    lengths.clear()
    energies(tiny, [ask(tiny, "Which of these? ", candidates[:20])], factors)
    assert len(lengths) == 1


def test_a_large_question_is_learned_from_as_in_one_row(tiny):
    candidates = [f"{number:03} {'x' * 20}" for number in range(120)]
    losses = [number / 120 for number in range(120)]
    slow = larc.SlowState.initial(tiny, seed=1)
    wide = larc.load_substrate("tiny", chunk_positions=2**16)
    moved = []
    for substrate in (tiny, wide):
        episode = larc.Learner(substrate, slow).begin()
        episode.update(larc.CandidateLosses("Which? ", candidates, losses))
        moved.append(episode.factors)
    assert torch.allclose(moved[0].B, moved[1].B, atol=1e-5)
    assert bool((moved[0].B != 0).any())
