"""One episode by hand: a task, the policy as bars, and feedback a step at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.text import Text

from larc.domains.programs import ProgramEpisode, build_episodes, split_groups
from larc.errors import LarcError
from larc.feedback import CandidateLosses
from larc.learner import Episode, Learner
from larc.rules import parse_rule
from larc.settings import nearest
from larc.state import SlowState, read_slow
from larc.substrate import Substrate

SEED = 2026092811
MOST_STEPS = 100
_BAR = 24
Losses = NDArray[np.float64]


def begin(substrate: Substrate, state: str, rule: str) -> Learner:
    """Return a learner that starts from a state: a file, a package, a run, or untrained."""
    if not state:
        # Two thirds up, as in the quick study: deeper than the input learns in fewer steps.
        boundary = 2 * substrate.layers // 3
        slow = SlowState.initial(substrate, seed=SEED, boundary=boundary)
    elif (Path(state) / "units").is_dir():
        # Only here: what reads runs is not part of every installation.
        from larc.runs.run import Run
        from larc.studies.packaging import selected_states
        from larc.studies.registry import study_of

        run = Run(state)
        trained = study_of(run).states
        # A study without objectives fits one state; one without states is refused below.
        objectives = (trained.objectives(run) if trained else ()) or ("",)
        slow = selected_states(run, "adapted" if "adapted" in objectives else objectives[0])[0]
    else:
        slow = read_slow(state)
    return Learner(substrate, slow.to(substrate.device), parse_rule(rule))


class Demo:
    """An episode that a person talks to.

    Parameters
    ----------
    learner
        What episodes are begun from.
    console
        Where it is shown.

    Examples
    --------
    >>> import larc
    >>> demo = Demo(begin(larc.load_substrate("tiny"), "", "descent:1.0"), Console(width=79))
    >>> demo.answer("raeset")
    there is no command 'raeset'; did you mean 'reset'?
    >>> demo.run(iter(["quit", "never read"]))
    <BLANKLINE>
    task 1 of 64; the model reads:
    ...
    """

    def __init__(self, learner: Learner, console: Console) -> None:
        self.learner = learner
        self.console = console
        self.tasks = build_episodes(split_groups("development"))
        # Each with what stands behind its name, what it does, and how.
        self.commands: dict[str, tuple[str, str, Callable[[str], None]]] = {
            "real": ("[N]", "learn from the task's feedback, N steps", self._real),
            "sham": ("[N]", "learn from the same losses, dealt to programs at random", self._sham),
            "reset": ("", "forget what was learned", self._reset),
            "answer": ("", "show which program is right", self._answer),
            "next": ("[N]", "go to the next task, or to task N", self._next),
            "save": ("FILE", "keep the episode in a file", self._save),
            "resume": ("FILE", "go on with a kept episode", self._resume),
            "help": ("", "show these commands", self._help),
            "quit": ("", "leave", self._quit),
        }
        self.leaving = False
        self.policy: list[float] = []
        self.episode = learner.begin(0)

    @property
    def number(self) -> int:
        """The task's number from 0: the seed of its episode, so that a kept one knows its task."""
        return self.episode.seed

    @property
    def task(self) -> ProgramEpisode:
        """The task that is asked now."""
        # In steps that share no divisor with their number: families and answers alternate.
        return self.tasks[(37 * self.number + 1) % len(self.tasks)]

    def run(self, lines: Iterator[str]) -> None:
        """Show the first task, and answer one command after another until the last."""
        self._show_task()
        self._print("real learns from feedback; help shows what else there is.")
        for line in lines:
            self.answer(line)
            if self.leaving:
                return

    def answer(self, line: str) -> None:
        """Do what a person said, or say what is wrong with it; an empty line is nothing."""
        name, _, rest = line.strip().partition(" ")
        if not name:
            return
        try:
            if name.lower() not in self.commands:
                raise LarcError(f"there is no command {name!r}; {nearest(name, self.commands)}")
            self.commands[name.lower()][2](rest.strip())
        except LarcError as error:
            self._print(str(error))

    # Commands ------------------------------------------------------------------------------------

    def _real(self, rest: str) -> None:
        self._learn(rest, "real", lambda losses: losses)

    def _sham(self, rest: str) -> None:
        # The study's sham: the same losses, dealt to the programs at random, anew at each step.
        self._learn(rest, "sham", lambda losses: self.episode.stream.permutation(losses))

    def _learn(self, rest: str, kind: str, deal: Callable[[Losses], Losses]) -> None:
        for _ in range(_count(rest, 1, MOST_STEPS)):
            losses = deal(np.asarray(self.task.support_losses)).tolist()
            update = self.episode.update(
                CandidateLosses(self.task.prompt, self.task.candidates, losses)
            )
            self._print(
                f"step {self.episode.step}, {kind} feedback: expected error by it was "
                f"{100 * update.loss:.1f} %, the state moved by {update.distance:.2g}"
            )
            self._show_policy(moved=True)

    def _reset(self, _: str) -> None:
        self.episode.reset()
        self._print("reset: the episode is where it began.")
        self._show_policy(moved=True)

    def _answer(self, _: str) -> None:
        right = self.task.target
        self._print(f"program {right + 1} is right: {self.task.candidates[right]}")
        wrong = ", ".join(f"{100 * loss:.0f} %" for loss in self.task.support_losses)
        self._print(f"the feedback says how often each was wrong on 4 examples: {wrong}")

    def _next(self, rest: str) -> None:
        number = _count(rest, (self.number + 1) % len(self.tasks) + 1, len(self.tasks))
        self.episode = self.learner.begin(number - 1)
        self._show_task()

    def _save(self, rest: str) -> None:
        path = _file(rest, "save")
        self.episode.save(path)
        self._print(f"kept in {path}: task {self.number + 1}, step {self.episode.step}.")

    def _resume(self, rest: str) -> None:
        episode = self.learner.resume(_file(rest, "resume"))
        if not 0 <= episode.seed < len(self.tasks):
            raise LarcError(f"{rest} was not kept by this demonstration; give one that was.")
        self.episode = episode
        self._print(f"resumed: task {self.number + 1}, step {self.episode.step}.")
        self._show_task()

    def _help(self, _: str) -> None:
        for name, (behind, sentence, _do) in self.commands.items():
            self._print(f"  {name:6} {behind:4}  {sentence}")

    def _quit(self, _: str) -> None:
        self.leaving = True

    # What is shown -------------------------------------------------------------------------------

    def _show_task(self) -> None:
        self._print("")
        self._print(f"task {self.number + 1} of {len(self.tasks)}; the model reads:")
        for line in self.task.prompt.splitlines():
            self._print(f"  | {line}")
        self._print("and says, after " + _steps(self.episode) + ":")
        self._show_policy(moved=False)

    def _show_policy(self, *, moved: bool) -> None:
        """Read the policy and draw it, beside what was drawn last if it moved from there."""
        before, task = self.policy, self.task
        self.policy = self.episode.read(task.prompt, task.candidates).tolist()
        plain = not self.console.encoding.lower().startswith("utf")
        block, up, down, same = "#+-=" if plain else "█▲▼="
        for number, now in enumerate(self.policy):
            line = Text(f"  {number + 1}  {task.candidates[number]:30}")
            style = "cyan"
            if moved:
                change = now - before[number]
                arrow = same
                if abs(change) >= 0.0005:  # what the printed digits can show
                    arrow, style = (up, "green") if change > 0 else (down, "red")
                line.append(f"{100 * before[number]:5.1f} % ")
                line.append(arrow, style)
            line.append(f"{100 * now:6.1f} %  ")
            line.append(block * round(_BAR * now), style)
            self.console.print(line, overflow="ignore", no_wrap=True, crop=False)

    def _print(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)


def typed(console: Console) -> Iterator[str]:
    """Yield the lines a person types, or those of a pipe, each shown as it is taken."""
    if sys.stdin.isatty():
        with suppress(ImportError):
            import readline  # noqa: F401  # arrow keys, where Python was built with them
        while True:
            try:
                yield console.input("\nlarc> ")
            except EOFError:
                console.print()
                return
    for line in sys.stdin:
        console.print(f"\nlarc> {line.rstrip()}", markup=False, highlight=False, soft_wrap=True)
        yield line


def _steps(episode: Episode) -> str:
    return f"{episode.step} step{'' if episode.step == 1 else 's'} of feedback"


def _file(rest: str, name: str) -> str:
    if not rest:
        raise LarcError(f"{name} takes a file; write `{name} FILE`.")
    return rest


def _count(rest: str, default: int, most: int) -> int:
    if not rest:
        return default
    if not rest.isdecimal() or not 1 <= int(rest) <= most:
        raise LarcError(f"{rest!r} is no number from 1 to {most}.")
    return int(rest)
