"""Starts for private streams, trained on labels alone and tried on validation streams.

Run with `python -m benchmarks.trials.streams --data FILE --prompt TEMPLATE --trial JSON`. Training
and validation streams are those of the `paper` preset of `larc study streams`; test streams are
never read beyond their division. A row for each trial goes to `--out`, every so many updates.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from larc.progress import Display
from larc.runs.units import cache_size
from larc.state import SlowState
from larc.studies.streams.choosing import mean_loss
from larc.studies.streams.settings import PRESETS, StreamsSettings
from larc.studies.streams.split import DataSet, data_sets
from larc.studies.streams.units import Play, Training
from larc.studies.streams.walking import walk
from larc.studies.streams.ways import STATIC, Way
from larc.substrate import Substrate, load_substrate


@dataclass(frozen=True)
class Trial:
    """One training on labels: where, how large, how fast, and how candidates are scored."""

    rank: int = 4
    boundary: int = 26
    rate: float = 5e-3
    batch: int = 16
    updates: int = 160
    every: int = 160
    score: str = "prior"
    falls: bool = False


def loss(
    substrate: Substrate, slow: SlowState, rule: str, data: DataSet, settings: StreamsSettings
) -> float:
    """Return the half-Brier loss on validation streams: kept by a rule, or reset without one."""
    play = Play(
        settings=settings,
        data=data.name,
        seed=settings.seeds[0],
        score=slow.normalise,
        part="try",
        path="TRIED",
        way=Way(STATIC, slow.normalise, "keep" if rule else "reset", rule=rule),
        streams=data.validation,
        slow=slow.to_bytes(),
    )
    rows = walk(data.validation, play.player(substrate), Display(silent=True), "trial")
    return mean_loss(rows, "TRIED")


def main() -> None:
    """Do the trials that are given, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--prompt", required=True)
    parser.add_argument("--looked-at", default="")
    parser.add_argument("--dtype", default="float32", help="bfloat16 is cheaper where it is fast")
    parser.add_argument("--out", type=Path, default=Path("runs/streams-trials.jsonl"))
    parser.add_argument("--trial", action="append", required=True, help="a JSON object")
    parser.add_argument("--rules", default="sgd:0.01,sgd:0.02")
    options = parser.parse_args()
    torch.set_num_threads(1)
    looked_at = tuple(filter(None, options.looked_at.split(",")))
    settings = replace(
        PRESETS["paper"],
        data=(options.data,),
        prompt=options.prompt,
        looked_at=looked_at,
        dtype=options.dtype,
    )
    (data,) = data_sets(settings)
    substrate = load_substrate(settings.substrate, dtype=settings.dtype, cache_bytes=cache_size())
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for text in options.trial:
        trial = Trial(**json.loads(text))
        training = Training(
            settings=replace(
                settings,
                rank=trial.rank,
                boundary=trial.boundary,
                batch=trial.batch,
                learning_rate=trial.rate,
                updates=trial.updates,
                rates_fall=trial.falls,
            ),
            data=data.name,
            seed=settings.seeds[0],
            score=trial.score,
            objective=STATIC,
            streams=data.training,
        ).on_labels(substrate)
        since, seconds = time.process_time(), 0.0
        curve: list[float] = []
        while len(curve) < trial.updates:
            curve += [training.advance() for _ in range(trial.every)]
            seconds += time.process_time() - since
            rules = ["", *options.rules.split(",")]
            slow = training.slow
            row = {
                "data": data.name,
                "dtype": settings.dtype,
                "trial": {**asdict(trial), "updates": len(curve)},
                "trained": sum(curve[-trial.every :]) / trial.every,
                "minutes": round(seconds / 60, 1),
                "losses": {
                    rule or "reset": loss(substrate, slow, rule, data, settings) for rule in rules
                },
            }
            with options.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)
            since = time.process_time()


if __name__ == "__main__":
    main()
