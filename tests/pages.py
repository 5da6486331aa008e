"""The code on pages: which blocks there are, and how a command of one is tried."""

import io
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from larc import cli
from larc.cli import command_line
from larc.settings import build
from larc.studies.registry import STUDIES
from larc.studies.sweep import parse_sweep

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(
    r"(?:<!-- (?P<mark>run|file: \S+) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """A block of code: what it is in, what it is marked as, and its text."""

    language: str
    mark: str
    text: str

    @property
    def commands(self) -> list[str]:
        return [line.removeprefix("$ ") for line in self.text.splitlines()]


def named(page):
    """Return a page's name, as tests are told apart by it."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    matches = _BLOCK.finditer(page.read_text(encoding="utf-8"))
    return [Block(one["language"], one["mark"] or "", one["text"]) for one in matches]


def perform(command: str, monkeypatch) -> None:
    """Run a command as a shell would, but in this process, where everything is loaded already."""
    *before, last = command.split(" | ")
    if before:
        (first,) = before
        done = subprocess.run(shlex.split(first), capture_output=True, text=True, check=True)
        monkeypatch.setattr(sys, "stdin", io.StringIO(done.stdout))
    program, *arguments = shlex.split(last)
    if program == "python":
        monkeypatch.setattr(sys, "argv", arguments)
        runpy.run_path(arguments[0], run_name="__main__")
    else:
        assert program == "larc", f"{command}: only larc and python can be run here"
        assert cli.main(arguments) == 0, command


def check(command: str) -> None:
    """Refuse a command that would be refused: a name, option, setting or target there is none."""
    program, *arguments = shlex.split(command)
    assert program in _CHECKERS, f"{command}: nothing here can tell whether this is right"
    _CHECKERS[program](arguments)


def _check_larc(arguments: list[str]) -> None:
    if "--help" in arguments:
        assert cli.main(arguments) == 0
        return
    try:
        known = command_line._parser().parse_args(arguments)
    except SystemExit as refused:
        raise AssertionError(f"larc {shlex.join(arguments)} is refused") from refused
    study = STUDIES.get(getattr(known, "study", ""))
    if study:
        given = {name: value for name, value in vars(known).items() if name in _names(study)}
        build(study.settings, given)
        parse_sweep(study, known.sweep)


def _names(study) -> set[str]:
    return set(study.settings.__dataclass_fields__)


def _check_make(arguments: list[str]) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in arguments:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"make {target} does nothing"


def _check_pip(arguments: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extras in re.findall(r"\[([\w,]+)\]", " ".join(arguments)):
        assert set(extras.split(",")) <= set(project["optional-dependencies"]), extras


def _check_python(arguments: list[str]) -> None:
    if arguments[0] == "-m" and (ROOT / arguments[1].split(".")[0]).is_dir():
        module = ROOT / arguments[1].replace(".", "/")
        assert module.with_suffix(".py").is_file() or (module / "__main__.py").is_file(), arguments


_CHECKERS = {
    "larc": _check_larc,
    "make": _check_make,
    "pip": _check_pip,
    "python": _check_python,
}
