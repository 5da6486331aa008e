"""What works on which family of models: tried on a small random model of each, as a table.

Each answer is found by doing it: nothing here is known beforehand of a family but its sizes.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

import larc
from larc.exporting import export_state
from larc.questions import ask
from larc.reporting.tables import Cell, Table
from larc.residual import apply_residual
from larc.scoring import energies
from larc.substrate.fetching import quiet_unless_terminal
from larc.substrate.frozen import Substrate
from larc.substrate.rows import Row
from larc.substrate.tiny import byte_tokenizer

_SIZES = {
    "vocab_size": 258,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 1,
}
_GROUPED = {**_SIZES, "num_key_value_heads": 2}
_HEADS = {**_GROUPED, "head_dim": 8}
_WINDOW = {**_HEADS, "sliding_window": 64}
_RECURRENT = {name: _SIZES[name] for name in ("vocab_size", "hidden_size", "num_hidden_layers")}

#: Each family with transformers' name for it and the sizes of the model that is tried.
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "Llama": ("llama", _GROUPED),
    "Llama, tied head": ("llama", {**_GROUPED, "tie_word_embeddings": True}),
    "Mistral": ("mistral", {**_HEADS, "sliding_window": None}),
    "Mistral, window": ("mistral", _WINDOW),
    "Qwen2": ("qwen2", _GROUPED),
    "Qwen3": ("qwen3", _HEADS),
    "Gemma 2": ("gemma2", _WINDOW),
    "Gemma 3": ("gemma3_text", _WINDOW),
    "Phi-3": ("phi3", {**_GROUPED, "sliding_window": None}),
    "OLMo": ("olmo", _GROUPED),
    "GPT-2": ("gpt2", _SIZES),
    "GPT-NeoX": ("gpt_neox", _SIZES),
    "OPT": ("opt", {**_SIZES, "ffn_dim": 48, "word_embed_proj_dim": 16}),
    "Mamba": ("mamba", {**_RECURRENT, "state_size": 4, "eos_token_id": 0, "pad_token_id": 1}),
    "RWKV": ("rwkv", {**_RECURRENT, "bos_token_id": 0, "eos_token_id": 0, "rescale_every": 2}),
}
_PROMPT, _ANSWERS = "Which of these is an even number? ", ("three", "four", "eleven")
# Sums in another order, of logits of order ten.
_SAME = 1e-4


@dataclass(frozen=True)
class Findings:
    """What was found out about a family; the texts are as the table shows them."""

    family: str
    loads: bool
    identity: bool
    rows: str
    boundaries: str
    learns: bool
    generates: bool
    exports: str


def random_model(family: str) -> Any:
    """Return a small model of a family, random and the same every time."""
    kind, sizes = FAMILIES[family]
    config = AutoConfig.for_model(kind, **sizes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(20261118)
        model: Any = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1 and not name.endswith("A_log"):
                parameter.mul_(5)  # fresh weights are too small to see
    return model


@cache
def findings(family: str) -> Findings:
    """Try everything on a family."""
    with tempfile.TemporaryDirectory() as directory, quiet_unless_terminal():
        random_model(family).save_pretrained(directory)
        byte_tokenizer().save_pretrained(directory)
        substrate = larc.load_substrate(directory)
        weights = substrate.identity.weights
        boundaries = [k for k in range(substrate.layers) if _enters(substrate, k)]
        tried = Findings(
            family=family,
            loads=True,
            identity=_is_the_model(substrate),
            rows=_rows(substrate),
            boundaries="all" if len(boundaries) == substrate.layers else "input",
            learns=all(_learns(substrate, boundary) for boundary in boundaries),
            generates=all(_generates(substrate, boundary) for boundary in boundaries),
            exports=_exports(substrate, Path(directory)),
        )
        # Nothing of all this may have touched the frozen model.
        fresh = Substrate(family, substrate.model, substrate.tokenizer)
        if fresh.identity.weights != weights:
            raise AssertionError(f"{family}: the frozen weights changed")
    return tried


def _enters(substrate: Substrate, boundary: int) -> bool:
    try:
        substrate.check_boundary(boundary)
    except larc.LarcError:
        return False
    return True


def _is_the_model(substrate: Substrate) -> bool:
    """Whether an episode that has learned nothing scores as the model's plain forward does."""
    question = ask(substrate, _PROMPT, _ANSWERS)
    expected = []
    for candidate in question.candidates:
        ids = torch.tensor([[*question.prompt, *candidate]])
        with torch.no_grad():
            logits = substrate.model(input_ids=ids, use_cache=False).logits[0].log_softmax(-1)
        first = len(question.prompt) - 1
        told = [float(logits[first + at, token]) for at, token in enumerate(candidate)]
        expected.append(sum(told) / len(told))
    slow = larc.SlowState.initial(substrate, seed=1)
    with torch.no_grad():
        (scores,) = energies(substrate, [question], slow.factors)
    return torch.allclose(scores, torch.tensor(expected), atol=_SAME, rtol=_SAME)


def _rows(substrate: Substrate) -> str:
    for length in (32, 64, 128, 256):
        substrate.packs(length)
    told = {"packed": "shared", "plain": "one each"}
    return told.get(substrate.layout, substrate.layout.replace("packed", "shared"))


def _learner(substrate: Substrate, boundary: int) -> larc.Learner:
    slow = larc.SlowState.initial(substrate, seed=1, boundary=boundary)
    return larc.Learner(substrate, slow, larc.Descent(1.0))


def _learns(substrate: Substrate, boundary: int) -> bool:
    episode = _learner(substrate, boundary).begin()
    before = float(episode.read(_PROMPT, _ANSWERS)[1])
    for _ in range(2):
        episode.update(larc.Label(_PROMPT, _ANSWERS, 1))
    return float(episode.read(_PROMPT, _ANSWERS)[1]) > before


def _generates(substrate: Substrate, boundary: int, length: int = 6) -> bool:
    """Whether generation under a state, with its cache, is what the scorer would choose."""
    learner = _learner(substrate, boundary)
    episode = learner.begin()
    for _ in range(2):
        episode.update(larc.Label(_PROMPT, _ANSWERS, 1))
    ids = substrate.tokenizer(_PROMPT, return_tensors="pt")["input_ids"]
    model: Any = substrate.model
    with learner.active(episode):
        written = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=length,
            min_new_tokens=length,
            do_sample=False,
        )[0].tolist()
    tokens = ids[0].tolist()
    for _ in range(length):
        row = Row(tuple(tokens))
        hidden = apply_residual(substrate.activations([row], boundary), episode.factors)
        last = torch.tensor([len(tokens) - 1])
        with torch.no_grad():
            logits = substrate.logits(hidden, [row], boundary, last)
        logits[:, substrate.tokenizer.eos_token_id] = -torch.inf  # as min_new_tokens does
        tokens.append(int(logits.argmax()))
    return bool(written == tokens)


def _exports(substrate: Substrate, directory: Path) -> str:
    episode = _learner(substrate, 0).begin()
    episode.update(larc.Label(_PROMPT, _ANSWERS, 1))
    done = []
    for form in ("peft", "merged"):
        try:
            export_state(substrate, episode, directory / form, to=form)
        except larc.LarcError:
            continue
        done.append(form)
    return ", ".join(done) or "no"


def families() -> str:
    """Return the table of all families, in Markdown."""
    head = ("Family", "Loads", "B = 0 is the model", "Rows", "Boundaries", "Learns")
    lines = [_line(findings(family)) for family in FAMILIES]
    return Table("families", "", (*head, "Generates", "Exports"), lines).markdown()


def _line(tried: Findings) -> list[Cell]:
    words = {True: "yes", False: "no"}
    return [words.get(answer, answer) for answer in asdict(tried).values()]
