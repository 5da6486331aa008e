"""``larc study``: run a study, or go on with one."""

from __future__ import annotations

import argparse
from pathlib import Path

from larc.cli.common import ONWARD, Commands, command, given
from larc.cli.report import say_report
from larc.settings import add_options, build, read_yaml


def add(commands: Commands) -> None:
    """Declare the command."""
    from larc.runs.settings import Execution
    from larc.studies.registry import STUDIES

    study = command(commands, "study", "Run a study, or go on with one that stopped.", None)
    kinds = study.add_subparsers(title="studies", metavar="STUDY", required=True)
    for kind, chosen in STUDIES.items():
        one = command(kinds, kind, chosen.sentence, _study, stopped=ONWARD)
        named = "PRESET" if chosen.presets else "NAME OF THE RUN"
        one.set_defaults(study=kind)
        if chosen.presets:
            one.add_argument(
                "--preset",
                choices=list(chosen.presets),
                default="quick",
                help="where settings start from [quick]; the values below are the paper's",
            )
        one.add_argument("--config", metavar="FILE", help="settings from a YAML file")
        one.add_argument("--out", metavar="DIR", help=f"the run's directory [runs/{kind}-{named}]")
        one.add_argument(
            "--sweep",
            action="append",
            default=[],
            metavar="NAME=A,B",
            help="vary a setting; give it again to vary another",
        )
        one.add_argument("--json", action="store_true", help="answer in JSON, on one line")
        add_options(one.add_argument_group("settings"), chosen.settings)
        add_options(one.add_argument_group("where it is done"), Execution)
    sentence = "Make a run's one final evaluation on reserved groups."
    final = command(kinds, "final", sentence, _final, stopped=ONWARD)
    final.add_argument("path", metavar="RUN")
    final.add_argument("--json", action="store_true", help="answer in JSON, on one line")
    add_options(final, Execution)


def _study(arguments: argparse.Namespace) -> None:
    from larc.runs.settings import Execution
    from larc.studies.registry import STUDIES
    from larc.studies.running import run_study, run_sweep
    from larc.studies.sweep import parse_sweep

    study = STUDIES[arguments.study]
    settings = study.presets[arguments.preset] if study.presets else study.settings()
    if arguments.config:
        settings = build(study.settings, read_yaml(arguments.config), settings)
    settings = build(study.settings, given(arguments, study.settings), settings)
    execution = build(Execution, given(arguments, Execution))
    name = arguments.preset if study.presets else Path(settings.run).name.removesuffix(".larc")
    out = Path(arguments.out or f"runs/{study.kind}-{name}")
    finished = (out / "manifest.json").exists() and (out / "report.html").exists()
    if arguments.sweep:
        run = run_sweep(study, settings, parse_sweep(study, arguments.sweep), out, execution)
    else:
        run = run_study(study, settings, out, execution)
    if finished and not arguments.json:
        print(f"{out} is finished already; its report is {out / 'report.html'}")
    else:
        say_report(run, as_json=arguments.json)


def _final(arguments: argparse.Namespace) -> None:
    from larc.runs.run import Run
    from larc.runs.settings import Execution
    from larc.studies.running import final_evaluation

    run = Run(arguments.path)
    final_evaluation(run, build(Execution, given(arguments, Execution)))
    say_report(run, as_json=arguments.json)
