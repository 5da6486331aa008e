"""``larc export``: a state for software that knows nothing of larc."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from larc.cli.common import Commands, command

_USE = {
    "peft": "load it with peft.PeftModel.from_pretrained(model, {out!r})",
    "merged": "load it with AutoModelForCausalLM.from_pretrained({out!r})",
    "wrapper": "put {out!r} on sys.path and call load() of its wrapper.py",
}


def add(commands: Commands) -> None:
    """Declare the command."""
    export = command(
        commands, "export", "Write a state as an adapter, a model or a wrapper.", _export
    )
    export.add_argument("state", metavar="STATE", help="a slow state or a saved episode")
    export.add_argument("--to", required=True, choices=list(_USE), help="which of them")
    export.add_argument("--out", required=True, metavar="DIR", help="the directory to make")
    export.add_argument(
        "--substrate",
        default="smollm2-135m",
        metavar="TEXT",
        help="the model it was made on [smollm2-135m]",
    )
    export.add_argument("--adapter", metavar="DIR", help="the adapter it was made on, if any")
    export.add_argument(
        "--dtype", default="float32", metavar="TEXT", help="its precision [float32]"
    )
    export.add_argument(
        "--acts-on", default="", metavar="TEXT", help="the weight it acts on, if any"
    )
    export.add_argument("--chat", action="store_true", help="whether its prompts were a chat")
    export.add_argument("--json", action="store_true", help="answer in JSON")


def _export(arguments: argparse.Namespace) -> None:
    from larc.exporting import export_state
    from larc.substrate import load_substrate

    substrate = load_substrate(
        arguments.substrate,
        adapter=arguments.adapter,
        dtype=arguments.dtype,
        acts_on=arguments.acts_on,
        chat=arguments.chat,
    )
    done = export_state(substrate, arguments.state, arguments.out, to=arguments.to)
    if arguments.json:
        print(json.dumps({**asdict(done), "out": str(done.out)}))
        return
    use = _USE[done.form].format(out=str(done.out))
    print(f"{done.out} gives the state's logits to {done.difference:.1g} of their spread; {use}")
