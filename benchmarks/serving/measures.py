"""Many streams and one request at a time, the service and the model, ingress and a bare route."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch

from benchmarks.serving.load import Request, send
from benchmarks.serving.servers import Running, serve, serve_bare
from benchmarks.speed.timing import Spread
from larc.io.files import atomic_write
from larc.learner import Learner
from larc.state import SlowState
from larc.substrate import load_substrate
from larc.substrate.frozen import rows_together

SEED = 2026092811
CANDIDATES = ["billing", "technical support", "sales", "account"]
_TEXT = (
    "invoice payment charged twice refund login password error screen printer offline update plan "
    "upgrade price quote seats contract cancel account email address changed delivery late missing"
)
_WORDS = tuple(_TEXT.split())


@dataclass(frozen=True)
class Figure:
    """One number of the table, with its range over the repetitions."""

    what: str
    value: Spread
    note: str = ""


@dataclass(frozen=True)
class Sizes:
    """How much is measured.

    Attributes
    ----------
    streams
        How many ask at once.
    rounds
        How many questions each of them asks in one repetition.
    repetitions
        How often everything is measured, in turns.
    ingress
        How many requests measure the ingress, each time.
    """

    streams: int = 64
    rounds: int = 2
    repetitions: int = 3
    ingress: int = 2000


class Traffic:
    """Tickets that nobody has asked about before, so that nothing is remembered of them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.count = 0

    def ticket(self) -> str:
        """Return the text of a new ticket, of about thirty words."""
        self.count += 1
        words = " ".join(self.chance.choices(_WORDS, k=26))
        return f"Ticket {self.count}: {words}.\nThe right queue is: "

    def chain(self, stream: str, rounds: int, *, labels: bool = True) -> list[Request]:
        """Return questions of one stream, each followed by its label."""
        requests = []
        for _ in range(rounds):
            text = self.ticket()
            name = f"q{self.count}"
            body = {"id": name, "prompt": text, "candidates": CANDIDATES}
            requests.append(Request(f"/v1/streams/{stream}/questions", body))
            if labels:
                path = f"/v1/streams/{stream}/questions/{name}/label?wait=applied"
                requests.append(Request(path, {"label": self.count % len(CANDIDATES)}))
        return requests


def make_streams(server: Running, names: Sequence[str], template: str = "default") -> None:
    """Make streams."""
    chains = [[Request(f"/v1/streams/{name}", {"template": template}, "PUT")] for name in names]
    send(server.address, server.token, chains, 8)


def state_options(directory: Path, substrate: str, boundary: int) -> tuple[SlowState, list[str]]:
    """Write a slow state before some layer; returns it, and options that serve it."""
    model = load_substrate(substrate)
    slow = SlowState.initial(model, seed=SEED, boundary=boundary)
    atomic_write(directory / "slow", slow.to_bytes())
    threads = ["--threads", str(torch.get_num_threads())]
    return slow, ["--substrate", substrate, "--state", str(directory / "slow"), *threads]


def concurrency(
    directory: Path, substrate: str, boundary: int, sizes: Sizes, say: Callable[[str], None]
) -> list[Figure]:
    """Compare many streams at once with one request at a time, and asks with the model alone."""
    slow, options = state_options(directory, substrate, boundary)
    traffic = Traffic(SEED)
    learner = Learner(load_substrate(substrate), slow)
    names = [f"s{number}" for number in range(sizes.streams)]
    gains, asked, batched, slower = [], [], [], []
    work: dict[str, list[float]] = {"gains": [], "asked": [], "batched": []}
    with serve(directory, options) as server:
        make_streams(server, names)
        # Everything has been computed once, and every stream has a state of its own.
        send(server.address, server.token, [traffic.chain(n, 1) for n in names], sizes.streams)
        states = [learner.begin(seed=n) for n in range(sizes.streams)]
        for repetition in range(sizes.repetitions):
            chains = [traffic.chain(name, sizes.rounds) for name in names]
            spent = [server.processor()]
            together = send(server.address, server.token, chains, sizes.streams)
            spent.append(server.processor())
            chains = [traffic.chain(name, sizes.rounds) for name in names]
            alone = send(server.address, server.token, chains, 1)
            spent.append(server.processor())
            gains.append(alone.seconds / together.seconds)
            slower.append(statistics.median(together.each) / statistics.median(alone.each))
            questions = [traffic.chain(name, 1, labels=False) for name in names]
            single = send(server.address, server.token, questions, sizes.streams)
            spent.append(server.processor())
            bodies = [{"stream": n, **traffic.chain(n, 1, labels=False)[0].body} for n in names]
            batch = Request("/v1/questions:batch", {"questions": bodies})
            one = send(server.address, server.token, [[batch]], 1)
            spent.append(server.processor())
            # The same reads by the model alone: each stream's state, and the one that is reset.
            requests = [
                (state, text, CANDIDATES)
                for kept, text in zip(states, _texts(traffic, sizes.streams), strict=True)
                for state in (kept, learner.begin())
            ]
            began, used = time.perf_counter(), time.process_time()
            with rows_together():  # as the service does it
                learner.read_many(requests)
            model, used = time.perf_counter() - began, time.process_time() - used
            at_once, in_turn, asks, as_batch = (b - a for a, b in pairwise(spent))
            work["gains"].append(in_turn / at_once)
            work["asked"].append(asks / used)
            work["batched"].append(as_batch / used)
            asked.append(single.seconds / model)
            batched.append(one.seconds / model)
            say(
                f"repetition {repetition + 1}: {sizes.streams * sizes.rounds * 2} requests in "
                f"{together.seconds:.1f} s at once, {alone.seconds:.1f} s one at a time; "
                f"{sizes.streams} asks in {single.seconds:.2f} s, as one batch "
                f"{one.seconds:.2f} s, by the model alone {model:.2f} s"
            )
    count = sizes.streams
    return [
        Figure(
            f"{count} streams at once: asks and labels a second over one request at a time",
            Spread.of(gains),
        ),
        Figure("how much longer one request takes then, median", Spread.of(slower)),
        Figure(f"{count} asks at once: time over `Learner.read_many` alone", Spread.of(asked)),
        Figure(f"{count} asks as one batch request: the same", Spread.of(batched)),
        # Of the server's process alone: other work on the machine takes no part in it.
        Figure("processor time of a request: one at a time over at once", Spread.of(work["gains"])),
        Figure("processor time of asks over the model's alone: at once", Spread.of(work["asked"])),
        Figure("the same as one batch request", Spread.of(work["batched"])),
    ]


def _texts(traffic: Traffic, count: int) -> list[str]:
    return [traffic.ticket() for _ in range(count)]


def ingress(directory: Path, sizes: Sizes, say: Callable[[str], None]) -> list[Figure]:
    """Compare the service with a model that costs nothing to a bare FastAPI route."""
    traffic = Traffic(SEED)
    names = [f"s{number}" for number in range(sizes.streams)]
    each = max(1, sizes.ingress // sizes.streams)
    ratios: dict[str, list[float]] = {"default": [], "plain": []}
    with (
        serve(directory, ["--substrate", "tiny", "--threads", "1"], free=True) as server,
        serve_bare() as bare,
    ):
        for template in ratios:
            make_streams(server, [f"{template}-{name}" for name in names], template)
        for repetition in range(sizes.repetitions + 1):
            rates = {}
            for template in ratios:
                chains = [traffic.chain(f"{template}-{name}", each, labels=False) for name in names]
                rates[template] = send(server.address, server.token, chains, sizes.streams)
            plain = [traffic.chain(name, each, labels=False) for name in names]
            base = send(bare.address, bare.token, plain, sizes.streams)
            if repetition == 0:  # unmeasured: everything has been used once
                continue
            for template, sent in rates.items():
                ratios[template].append(sent.seconds / base.seconds)
            say(
                f"repetition {repetition}: durable asks a second "
                + ", ".join(f"{t} {len(s.each) / s.seconds:.0f}" for t, s in rates.items())
                + f"; bare route {len(base.each) / base.seconds:.0f}"
            )
    return [
        Figure(
            f"a durable ask of a {template!r} stream over a bare route, the model costing nothing",
            Spread.of(values),
        )
        for template, values in ratios.items()
    ]
