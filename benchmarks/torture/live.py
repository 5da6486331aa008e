"""A live session as somebody might run one: a controller answers a stream and saves every event.

Started again after whatever stopped it, it goes on from what it saved last. At the end it writes
down everything it answered.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

import larc
from larc.io.files import atomic_write
from larc.stream import Ask, Question, Recorded, Strategy, order_events
from larc.stream.controller import Controller
from larc.stream.question import labels_of, questions_of
from larc.stream.session import Session

PATHS = (
    Strategy("keep"),
    Strategy("reset", retention="reset"),
    Strategy("sham", sham=True),
    Strategy("latest", retention="latest"),
)
CANDIDATES = ("up", "down", "flat")


def questions(count: int = 30) -> list[Recorded]:
    """Questions whose labels arrive late, some together, one never."""
    return [
        Recorded(
            Question(f"{number:03}", CANDIDATES, f"After {number % 4}, it goes "),
            asked=number,
            arrives=None if number == 9 else number + 1 + (5 * number) % 7,
            label=number * number % 3,
        )
        for number in range(count)
    ]


def main(out: str) -> int:
    torch.set_num_threads(1)
    directory = Path(out)
    directory.mkdir(exist_ok=True)
    substrate = larc.load_substrate("tiny")
    slow = larc.SlowState.initial(substrate, seed=1)
    session = Session(larc.Learner(substrate, slow, larc.SGD(1.0)), PATHS, seed=1)
    controller = Controller(session)
    saved, done, answers = directory / "session.safetensors", 0, {}
    if saved.exists():
        notes = controller.restore(saved)
        done, answers = notes["done"], notes["answers"]
    events = order_events(
        questions(),
        asked=lambda item: item.asked,
        arrives=lambda item: item.arrives,
        identifier=lambda item: item.name,
    )
    for number, event in enumerate(events, start=1):
        if number <= done:
            continue
        if isinstance(event, Ask):
            for item, answer in zip(
                event.items, controller.ask(questions_of(event.items)), strict=True
            ):
                policies = {name: policy.tolist() for name, policy in answer.said.items()}
                answers[item.name] = policies | {"mixed": list(answer.forecast.probabilities)}
        else:
            controller.learn(labels_of(event.items))
        controller.save(saved, {"done": number, "answers": answers})
    atomic_write(directory / "answers.json", json.dumps(answers, sort_keys=True).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
