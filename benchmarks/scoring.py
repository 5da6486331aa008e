"""The packed scorer against the paper's 8 x 512 layout and one row per candidate; reads of many
private states; the cost of a new one. Run with `make bench`."""

from __future__ import annotations

import os
import time

import torch

import larc
from benchmarks.timing import alternate
from larc.programs import build_episodes, split_groups
from larc.residual import Factors, apply_residual
from larc.scoring import CandidateLosses, Question, ask, energies
from larc.substrate import views
from larc.substrate.frozen import Substrate
from larc.substrate.rows import padded_length, token_batch

PAPER_LENGTH = 512


def risk(scores: list[torch.Tensor], feedback: list[CandidateLosses]) -> torch.Tensor:
    return torch.stack([f.loss(s) for f, s in zip(feedback, scores, strict=True)]).sum()


def paper_energies(
    substrate: Substrate, questions: list[Question], factors: Factors
) -> list[torch.Tensor]:
    """One row per candidate, every row padded to 512, the head where answers are predicted."""
    rows = [row for question in questions for row in question.plain.rows]
    owners = [number for number, q in enumerate(questions) for _ in q.candidates]
    tokens = token_batch(rows, 0, PAPER_LENGTH)
    mask = torch.zeros(len(rows), PAPER_LENGTH, dtype=torch.long)
    for number, row in enumerate(rows):
        mask[number, : len(row.tokens)] = 1
    hidden = substrate.model.get_input_embeddings()(tokens)
    hidden = apply_residual(hidden, factors.at(torch.tensor(owners)))
    answers = [answer for question in questions for answer in question.plain.answers]
    wanted = [token for question in questions for token in question.candidates]
    places = [
        number * PAPER_LENGTH + column
        for number, answer in enumerate(answers)
        for column in answer.columns
    ]
    logits = views.above(substrate.model, 0)(hidden, torch.tensor(places), attention_mask=mask)
    told = torch.tensor([token for tokens in wanted for token in tokens])
    found = logits.log_softmax(1)[range(len(told)), told].split([len(w) for w in wanted])
    scores = torch.stack([part.mean() for part in found])
    return list(scores.split([len(question.candidates) for question in questions]))


def layouts(substrate: Substrate, repetitions: int) -> None:
    episodes = build_episodes(split_groups("training"))
    chosen = [episodes[0], episodes[-1]]  # one of each family
    feedback = [CandidateLosses(e.prompt, e.candidates, e.support_losses) for e in chosen]
    questions = [ask(substrate, e.prompt, e.candidates) for e in chosen]
    slow = larc.SlowState.initial(substrate, seed=2026092811)
    # Two different trained-looking states: at B = 0 a row with the wrong factors would not show.
    stream = torch.Generator().manual_seed(7)
    written = [0.02 * torch.randn(slow.factors.B.shape, generator=stream) for _ in range(2)]
    start = Factors.stack([Factors(slow.factors.A, B) for B in written])
    scored: dict[str, torch.Tensor] = {}
    slopes: dict[str, torch.Tensor] = {}

    def run(name: str) -> None:
        leaf = start.leaf()
        if name == "paper":
            scores = paper_energies(substrate, questions, leaf)
        else:
            scores = energies(substrate, questions, leaf, layout=name)  # type: ignore[arg-type]  # not paper
        risk(scores, feedback).backward()
        scored[name], slopes[name] = torch.cat(scores).detach(), leaf.B.grad

    times = alternate({n: lambda n=n: run(n) for n in ("packed", "plain", "paper")}, repetitions)
    positions = {
        "packed": 2 * padded_length([q.packed.rows[0] for q in questions]),
        "plain": 8 * padded_length([row for q in questions for row in q.plain.rows]),
        "paper": 8 * PAPER_LENGTH,
    }
    print("\nForward and backward, two episodes of four candidates, input boundary")
    print(
        f"{'layout':26}{'positions':>10}{'seconds':>10}{'spread':>8}{'x packed':>10}"
        f"{'energy diff':>13}{'slope diff':>12}"
    )
    names = {"packed": "packed (ours)", "plain": "one row per candidate", "paper": "8 x 512"}
    for name, timed in times.items():
        energy = float((scored[name] - scored["packed"]).abs().max())
        slope = float((slopes[name] - slopes["packed"]).abs().max() / slopes["packed"].abs().max())
        print(
            f"{names[name]:26}{positions[name]:>10}{timed.median:>10.3f}{timed.spread:>8.0%}"
            f"{timed.median / times['packed'].median:>10.1f}{energy:>13.1e}{slope:>12.1e}"
        )


def private_states(substrate: Substrate, repetitions: int) -> None:
    episode = build_episodes(split_groups("training"))[0]
    slow = larc.SlowState.initial(substrate, seed=1)
    learner = larc.Learner(substrate, slow)
    # Sixty-four different questions of equal length, so that no read is shared.
    questions = [f"{episode.prompt[:-9]}{number:02} Program:\n" for number in range(64)]
    one = learner.begin()
    many = [learner.begin(seed) for seed in range(64)]
    reads = {
        "64 questions, 1 state": lambda: learner.read_many(
            [(one, question, episode.candidates) for question in questions]
        ),
        "64 questions, 64 states": lambda: learner.read_many(
            [(own, q, episode.candidates) for own, q in zip(many, questions, strict=True)]
        ),
    }
    times = alternate(reads, repetitions)
    print("\nReads in one batch of the same size")
    base = times["64 questions, 1 state"].median
    for name, timed in times.items():
        each = 1000 * timed.median / 64
        print(f"{name:26}{each:>10.2f} ms a read{timed.spread:>8.0%}{timed.median / base:>10.3f}")


def beginning(substrate: Substrate) -> None:
    learner = larc.Learner(substrate, larc.SlowState.initial(substrate, seed=1))
    count = 5000
    kept = []
    start = time.perf_counter()
    for seed in range(count):
        kept.append(learner.begin(seed))
    begun = (time.perf_counter() - start) / count
    numbers = learner.slow.factors.numbers
    print(
        f"\nA new private state: {1000 * begun:.4f} ms and {numbers} numbers ({4 * numbers} bytes)"
    )


def main() -> None:
    torch.set_num_threads(int(os.environ.get("LARC_THREADS", "2")))
    substrate = larc.load_substrate(os.environ.get("LARC_SUBSTRATE", "smollm2-135m"))
    repetitions = int(os.environ.get("LARC_REPETITIONS", "5"))
    print(f"{substrate}, torch {torch.__version__}, {torch.get_num_threads()} threads")
    layouts(substrate, repetitions)
    private_states(substrate, repetitions)
    beginning(substrate)


if __name__ == "__main__":
    main()
