"""The command line: thin commands over the library."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from larc.errors import LarcError
from larc.settings import add_options, build, nearest, read_yaml

OK, REFUSED, USAGE, INTERRUPTED = 0, 1, 2, 130

# Read by OpenMP when torch is first loaded, which is after this. By default its threads spin while
# they wait for each other: with anything else running on the same cores, that was seven times
# slower for a slow update of SmolLM2.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0: done. 1: refused, with one sentence that says what to do. 2: the command line was wrong.
    130: interrupted.
    """
    parser = _parser()
    known, unknown = parser.parse_known_args(arguments)
    if unknown:
        options = getattr(known, "options", [])
        name = unknown[0].split("=")[0]
        print(f"larc: there is no option {name}; {nearest(name, options)}", file=sys.stderr)
        return USAGE
    if not hasattr(known, "run"):
        parser.print_help()
        return USAGE
    try:
        known.run(known)
    except LarcError as error:
        print(f"larc: {error}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        print("larc: interrupted; the same command carries on from here.", file=sys.stderr)
        return INTERRUPTED
    return OK


def _parser() -> argparse.ArgumentParser:
    from larc.studies.catalog import STUDIES
    from larc.studies.options import AdapterSettings, Execution

    parser = argparse.ArgumentParser(
        prog="larc", description="Learning from feedback inside a frozen language model."
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    fetch = _command(commands, "fetch", "Bring a model to this machine, once.", _fetch)
    fetch.add_argument("model", nargs="?", default="smollm2-135m", help="which one [smollm2-135m]")

    study = _command(commands, "study", "Run a study, or go on with one that stopped.", None)
    kinds = study.add_subparsers(title="studies", metavar="STUDY", required=True)
    for kind, chosen in STUDIES.items():
        one = _command(kinds, kind, chosen.sentence, _study)
        one.set_defaults(study=kind)
        one.add_argument("--preset", choices=list(chosen.presets), default="quick")
        one.add_argument("--config", metavar="FILE", help="settings from a YAML file")
        one.add_argument("--out", metavar="DIR", help="the run's directory [runs/STUDY-PRESET]")
        one.add_argument(
            "--sweep",
            action="append",
            default=[],
            metavar="NAME=A,B",
            help="vary a setting; give it again to vary another",
        )
        add_options(one.add_argument_group("settings"), chosen.settings)
        add_options(one.add_argument_group("where it is done"), Execution)
    final = _command(
        kinds, "final", "Make a run's one final evaluation on reserved groups.", _final
    )
    final.add_argument("path", metavar="RUN")
    add_options(final, Execution)

    ci = _command(commands, "ci", "Fetch and predict continuous-integration jobs.", None)
    parts = ci.add_subparsers(title="parts", metavar="PART", required=True)
    base = _command(parts, "baseline", "Predict jobs without a model: HEDGE4 alone.", _ci_baseline)
    base.add_argument("files", nargs="+", metavar="FILE", help="JSONL, Parquet or API answers")
    base.add_argument("--json", action="store_true", help="answer in JSON")
    base.add_argument(
        "--renamed",
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="count a repository under its later name",
    )
    get = _command(parts, "fetch", "Fetch a repository's job history from GitHub.", _ci_fetch)
    get.add_argument("repository", metavar="OWNER/REPO")
    get.add_argument("--since", required=True, metavar="DATE")
    get.add_argument("--until", required=True, metavar="DATE")
    get.add_argument("--out", required=True, metavar="FILE")
    get.add_argument("--base-url", default="https://api.github.com", metavar="URL")

    report = _command(commands, "report", "Write a run's tables and figures.", _report)
    report.add_argument("path", metavar="RUN")
    verify = _command(commands, "verify", "Check a run's files and order of evidence.", _verify)
    verify.add_argument("path", metavar="RUN")
    verify.add_argument("--json", action="store_true", help="answer in JSON")
    adapter = _command(commands, "adapter", "Train a frozen semantic adapter.", _adapter)
    add_options(adapter, AdapterSettings)
    _tell_options(parser)
    return parser


def _command(
    commands: Any, name: str, sentence: str, run: Callable[[argparse.Namespace], None] | None
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name, help=sentence, description=sentence, allow_abbrev=False
    )
    if run is not None:
        command.set_defaults(run=run)
    return command


def _tell_options(parser: argparse.ArgumentParser) -> None:
    """Let every command know its own options, for the nearest one to a mistyped name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                command.set_defaults(options=list(command._option_string_actions))
                _tell_options(command)


def _given(arguments: argparse.Namespace, cls: type[Any]) -> dict[str, Any]:
    return {f.name: getattr(arguments, f.name) for f in fields(cls) if hasattr(arguments, f.name)}


def _fetch(arguments: argparse.Namespace) -> None:
    from larc.substrate import fetch

    fetch(arguments.model)


def _study(arguments: argparse.Namespace) -> None:
    from larc.studies.catalog import STUDIES, is_finished, parse_sweep, run_study, run_sweep
    from larc.studies.options import Execution

    study = STUDIES[arguments.study]
    settings = study.presets[arguments.preset]
    if arguments.config:
        settings = build(study.settings, read_yaml(arguments.config), settings)
    settings = build(study.settings, _given(arguments, study.settings), settings)
    execution = build(Execution, _given(arguments, Execution))
    out = Path(arguments.out or f"runs/{study.kind}-{arguments.preset}")
    finished = is_finished(out)
    if arguments.sweep:
        run = run_sweep(study, settings, parse_sweep(study, arguments.sweep), out, execution)
    else:
        run = run_study(study, settings, out, execution)
    if finished:
        print(f"{out} is finished already; its report is {out / 'report.md'}")
        return
    _write_report(run)


def _final(arguments: argparse.Namespace) -> None:
    from larc.studies.catalog import final_evaluation
    from larc.studies.options import Execution
    from larc.studies.runs import Run

    run = Run(arguments.path)
    final_evaluation(run, build(Execution, _given(arguments, Execution)))
    _write_report(run)


def _ci_baseline(arguments: argparse.Namespace) -> None:
    from larc.ci import baseline, read_jobs

    renamed = dict(text.split("=", 1) for text in arguments.renamed if "=" in text)
    if len(renamed) < len(arguments.renamed):
        raise LarcError("--renamed takes OLD=NEW, two names of one repository.")
    jobs, accounting = read_jobs(arguments.files, renamed=renamed)
    report = baseline(jobs, accounting)
    if arguments.json:
        print(report.to_json(), end="")
        return
    rows = accounting.rows()
    reasons = accounting.left_out.items()
    left = ", ".join(f"{count} {reason}" for reason, count in reasons if count) or "none"
    print(f"{rows['read']} rows read, {rows['accepted']} accepted, left out: {left}")
    print(f"{'half-Brier loss':16}{'by commit':>12}{'by job':>12}")
    for name, losses in report.half_brier.items():
        shown = ["–" if losses[w] is None else f"{losses[w]:.4f}" for w in ("commit", "job")]
        print(f"{name:16}{shown[0]:>12}{shown[1]:>12}")


def _ci_fetch(arguments: argparse.Namespace) -> None:
    from larc.ci.fetching import FetchProgress, fetch_jobs

    def said(progress: FetchProgress) -> None:
        line = f"{progress.stage}: {progress.done} of {progress.total} {progress.note}"
        if sys.stderr.isatty():
            print(f"\r{line:78}", end="", file=sys.stderr, flush=True)

    report = fetch_jobs(
        arguments.repository,
        since=arguments.since,
        until=arguments.until,
        out=Path(arguments.out),
        base_url=arguments.base_url,
        token=os.environ.get("GITHUB_TOKEN") or os.environ.get("GH_TOKEN"),
        on_progress=said,
    )
    print(report)


def _report(arguments: argparse.Namespace) -> None:
    from larc.studies.runs import Run

    _write_report(Run(arguments.path))


def _write_report(run: Any) -> None:
    from larc.reports.writing import write_report

    print(f"the report is {write_report(run)}")


def _verify(arguments: argparse.Namespace) -> None:
    from larc.studies.verify import verify

    said = verify(arguments.path)
    print(json.dumps({"verified": said}) if arguments.json else "\n".join(said))


def _adapter(arguments: argparse.Namespace) -> None:
    from larc.progress import tracked
    from larc.studies.adapter import train_adapter
    from larc.studies.options import AdapterSettings

    settings = build(AdapterSettings, _given(arguments, AdapterSettings))
    with tracked("adapter", settings.updates) as on_update:
        out = train_adapter(settings, on_update)
    print(f"the adapter is in {out}; use it with load_substrate(..., adapter={str(out)!r})")


if __name__ == "__main__":
    sys.exit(main())
