"""``larc demo``: one episode by hand."""

from __future__ import annotations

import argparse

from larc.cli.common import Commands, command

STOPPED = "the episode was not kept (`save FILE` keeps one); begin again with"


def add(commands: Commands) -> None:
    """Declare the command."""
    sentence = "Try an episode by hand, a step of feedback at a time."
    demo = command(commands, "demo", sentence, _demo, stopped=STOPPED)
    demo.add_argument(
        "--substrate", metavar="TEXT", help="the frozen model [smollm2-135m if fetched, else tiny]"
    )
    demo.add_argument(
        "--state", default="", metavar="STATE", help="a slow state, a package or a run [untrained]"
    )
    demo.add_argument(
        "--rule", default="descent:1.0", metavar="TEXT", help="the update rule [descent:1.0]"
    )


def _demo(arguments: argparse.Namespace) -> None:
    from rich.console import Console

    from larc.cli.demonstration import Demo, begin, typed
    from larc.substrate import load_substrate
    from larc.substrate.fetching import is_fetched

    console = Console()
    name = arguments.substrate or ("smollm2-135m" if is_fetched("smollm2-135m") else "tiny")
    learner = begin(load_substrate(name), arguments.state, arguments.rule)
    slow = learner.slow
    start = f"trained by {slow.version} slow updates" if slow.version else "untrained"
    where = f"before layer {slow.boundary}" if slow.boundary else "at the input"
    console.print(
        f"{name}, a residual of rank {slow.factors.rank} {where}, {start}.",
        highlight=False,
        soft_wrap=True,
    )
    if name == "tiny":
        console.print("It is a small random model; `larc fetch` brings a real one.", soft_wrap=True)
    Demo(learner, console).run(typed(console))
