"""Reads with many private states against PEFT and pyreft."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from benchmarks.speed.peers import PeerMissing
from benchmarks.speed.peft_peer import PeftStates
from benchmarks.speed.reft_peer import ReftStates
from benchmarks.speed.setting import Keeping, Setting, check_same, orthonormal_state
from benchmarks.speed.table import Missing, Row, Section, timed_row
from larc.learner import Learner
from larc.tasks import Task

SECTION = Section(
    "reads",
    "2. Reads with private states",
    "One question of four candidates for each of N private states, residual at the input: the "
    "program task's, without its list of programs. Every policy equal to ours within 1e-4.",
)
TOLERANCE = 1e-4
NAMES = {
    "mixed": "PEFT, adapter_names",
    "packed": "PEFT, adapter_names, given our packed rows",
    "turn": "PEFT, set_adapter in turn",
    "reft": "pyreft, LoReFT at layer 0 in turn",
}

Read = Callable[[], list[Tensor]]


def shorter(task: Task) -> Task:
    r"""Return a task without the list of programs in its prompt.

    Examples
    --------
    >>> shorter(Task("Family: a\nPrograms:\nx\ny\n", ["x", "y"], [0, 1])).prompt
    'Family: a\nProgram:\n'
    """
    return replace(task, prompt=task.prompt.split("Programs:")[0] + "Program:\n")


def ways(setting: Setting, count: int) -> tuple[Read, dict[str, Read | PeerMissing]]:
    """Return our read of a number of states, and the peers' reads of the same."""
    rank, width = setting.slow.factors.rank, setting.substrate.width_at(0)
    states = [orthonormal_state(width, rank, seed) for seed in range(count)]
    tasks = [shorter(setting.episodes[n % len(setting.episodes)]) for n in range(count)]
    questions = [setting.ask(task) for task in tasks]
    learner = Learner(setting.substrate, setting.slow, limits=setting.limits)
    requests = []
    for number, (state, task) in enumerate(zip(states, tasks, strict=True)):
        episode = learner.begin(number)
        episode.factors = state
        requests.append((episode, task.prompt, task.candidates))
    peers: dict[str, Read | PeerMissing] = {}
    try:
        peft = PeftStates(setting, states)
        peers["mixed"] = lambda: [e.softmax(0) for e in peft.read_mixed(questions)]
        peers["packed"] = lambda: [e.softmax(0) for e in peft.read_mixed(questions, packed=True)]
        peers["turn"] = lambda: [e.softmax(0) for e in peft.read_in_turn(questions)]
    except PeerMissing as missing:
        peers["mixed"] = peers["packed"] = peers["turn"] = missing
    try:
        reft = ReftStates(setting, states)
        peers["reft"] = lambda: [e.softmax(0) for e in reft.read_in_turn(questions)]
    except PeerMissing as missing:
        peers["reft"] = missing
    return lambda: learner.read_many(requests), peers


def rows(setting: Setting) -> list[Row]:
    """Measure reads of 1, 8 and 64 states."""
    table_rows: list[Row] = []
    for count in (1, 8) if setting.quick else (1, 8, 64):
        our_read, others = ways(setting, count)
        runs = {"ours": Keeping(our_read)}
        runs |= {n: Keeping(way) for n, way in others.items() if not isinstance(way, PeerMissing)}
        times = setting.alternate(runs, long=count > 8)
        reference = torch.cat(runs["ours"].result)
        for name, other in others.items():
            case = f"N = {count}: {NAMES[name]}"
            if isinstance(other, PeerMissing):
                table_rows.append(Missing(case, str(other)))
                continue
            check_same(NAMES[name], torch.cat(runs[name].result), reference, TOLERANCE)
            table_rows.append(timed_row(case, times, name, "ours", "its time over ours"))
    return table_rows
