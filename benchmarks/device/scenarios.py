"""What states go through on a device: reads, updates, files, sessions, slow training, proposals."""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

import larc
from larc.domains.programs import build_episodes, split_groups, to_task
from larc.proposals.sampling import Request
from larc.rules import parse_rule
from larc.substrate.frozen import rows_together

ASKED = ("Which way next? ", ["up", "down", "left"])
RULES = {
    "plain steps": "sgd:0.1",
    "steps with everything": "sgd:0.1:decay=0.1:slowing=0.5:offset_size=0.1",
    "descending steps": "descent:1.0",
    "private moments": "rmsprop:0.01",
}


def slow_state(substrate, boundary, **more):
    """Return a slow state whose ``B`` is not zero: at zero, a mistake in ``A`` would not show."""
    slow = larc.SlowState.initial(substrate, seed=1, boundary=boundary, **more)
    written = 0.1 * torch.randn(slow.factors.B.shape, generator=torch.Generator().manual_seed(2))
    return slow.advanced(larc.Factors(slow.factors.A, written.to(substrate.device)))


def small_tasks(count=4):
    """Return tasks of three candidates, with losses to learn from and others to be judged by."""
    return [
        larc.Task(
            f"question {number}: ",
            ["mul 2", "add 3", "clip"],
            support=[(number + c) % 3 / 2 for c in range(3)],
            query=[(number + 2 * c) % 3 / 2 for c in range(3)],
            group=str(number),
        )
        for number in range(count)
    ]


def learn(substrate, boundary, rule, **more):
    """Read, learn and read; and again from a file."""
    learner = larc.Learner(substrate, slow_state(substrate, boundary, **more), parse_rule(rule))
    episode = learner.begin(3)
    reads = [episode.read(*ASKED)]
    episode.update(larc.Label(*ASKED, 1))
    episode.update([larc.CandidateLosses(*ASKED, [0.0, 1.0, 0.5])])
    reads.append(episode.read(*ASKED))
    with tempfile.TemporaryDirectory() as directory:
        episode.save(Path(directory) / "state")
        return [*reads, learner.resume(Path(directory) / "state").read(*ASKED)]


def together(substrate):
    """Rows in shared batches, with beginnings that are used again."""
    learner = larc.Learner(substrate, slow_state(substrate, 2))
    episode, reads = learner.begin(1), []
    with rows_together():
        for start in range(4):
            prompts = [f"The same long beginning, then {start + n}: " for n in range(3)]
            reads += learner.read_many([(episode, prompt, ["yes", "no"]) for prompt in prompts])
    assert len(substrate.beginnings)
    return reads


def session(substrate):
    """Several strategies along a stream, saved in the middle and gone on with."""
    strategies = [
        larc.Strategy("reset", retention="reset"),
        larc.Strategy("keep"),
        larc.Strategy("sham", sham=True),
        larc.Strategy("tenth", scale=0.1, offsets=(0.1, -0.1)),
    ]

    def begun():
        return larc.Session(larc.Learner(substrate, slow_state(substrate, 1)), strategies, seed=1)

    one, other = begun(), begun()
    one.ask([larc.Question("a", ("up", "down"), prompt="a: ")])
    one.learn({"a": "up"})
    with tempfile.TemporaryDirectory() as directory:
        one.save(Path(directory) / "session")
        other.restore(Path(directory) / "session")
    answers = other.ask([larc.Question("b", ("up", "down"), prompt="b: ")])
    return [torch.from_numpy(policy) for each in answers.values() for policy in each]


def slow_training(substrate, objective, boundary):
    """Outer updates, and what a file of them goes on to."""
    with tempfile.TemporaryDirectory() as directory:
        for _ in range(2):
            slow = larc.train(
                substrate,
                small_tasks(),
                objective=objective,
                boundary=boundary,
                updates=2,
                seed=1,
                checkpoint=Path(directory) / "checkpoint",
                checkpoint_every=1,
            )
    return [slow.factors.A.cpu(), slow.factors.B.cpu()]


def stream_training(substrate):
    """Through a window of a stream, exactly."""
    items = [
        larc.Recorded(
            larc.Question(f"{n}", ("up", "down"), prompt=f"job {n % 3}: "),
            asked=float(n // 2),
            arrives=n // 2 + 1.5,
            label=n % 2,
        )
        for n in range(6)
    ]
    slow = larc.train_streams(
        substrate, [items], gradient="exact", window=6, updates=2, batch=1, seed=1
    )
    return [slow.factors.A.cpu(), slow.factors.B.cpu()]


def proposing(substrate):
    """Texts drawn from random streams of their own."""
    learner = larc.Learner(substrate, slow_state(substrate, 2))
    requests = [(learner.begin(n), Request("Say: ", n=3, max_tokens=4, seed=n)) for n in range(2)]
    written = learner.propose_many(requests)
    return [torch.tensor([float(len(p.text)) for p in each.proposals]) for each in written]


def programs(substrate):
    """A group of the program study: shared first steps, real and sham, kept and reset."""
    episodes = build_episodes(split_groups("training")[:1])[:2]
    tasks = [to_task(one, with_query=False) for one in episodes]
    done = larc.predict(substrate, slow_state(substrate, 2), tasks, seed=1)
    cells = (done.real_keep, done.real_reset, done.sham_keep, done.sham_reset)
    return [torch.from_numpy(policy) for cell in cells for policy in cell]


Scenario = Callable[[Any], list[torch.Tensor]]
PLAIN = {"source": "tiny"}
HALF = {"source": "tiny", "dtype": "bfloat16"}
WEIGHT = {"source": "tiny", "acts_on": "self_attn.o_proj"}
AGAIN = {"source": "tiny", "checkpointing": True}
#: Each scenario with how its substrate is loaded.
SCENARIOS: dict[str, tuple[dict[str, Any], Scenario]] = {
    **{f"{n}, at the input": (PLAIN, partial(learn, boundary=0, rule=r)) for n, r in RULES.items()},
    **{
        f"{n}, before layer 2": (PLAIN, partial(learn, boundary=2, rule=r))
        for n, r in RULES.items()
    },
    "a prior is taken off": (PLAIN, lambda s: learn(s, 2, "sgd:0.1", normalise="prior")),
    "a weight is corrected": (WEIGHT, lambda s: learn(s, 2, "sgd:0.1")),
    "bfloat16": (HALF, lambda s: learn(s, 1, "sgd:0.1")),
    "checkpointing": (AGAIN, lambda s: learn(s, 1, "sgd:0.1")),
    "rows together": (PLAIN, together),
    "a session": (PLAIN, session),
    "first-order training": (PLAIN, lambda s: slow_training(s, "adapted", 2)),
    "exact training": (PLAIN, lambda s: slow_training(s, "exact", 2)),
    "exact training, checkpointing": (AGAIN, lambda s: slow_training(s, "exact", 1)),
    "training through a stream": (PLAIN, stream_training),
    "texts are proposed": (PLAIN, proposing),
    "the program study": (PLAIN, programs),
}
