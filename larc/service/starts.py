"""What a server is started with: frozen models, and slow states of them, each by a name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from larc.errors import LarcError
from larc.service.protocol import is_name
from larc.service.templates import Models, Start
from larc.state import SlowState, read_slow
from larc.substrate import load_substrate
from larc.substrate.frozen import Substrate

#: The name of the slow state that every model has.
UNTRAINED = "untrained"
_SEED = 2026092811


def given_states(texts: Sequence[str]) -> list[tuple[str, SlowState]]:
    """Return slow states by their names.

    Parameters
    ----------
    texts
        Files or packages, each ``PATH`` (named by its stem) or ``NAME=PATH``.

    Examples
    --------
    >>> given_states(["a b=slow.safetensors"])
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: --state a b=slow.safetensors: 'a b' is no name; give NAME=STATE.
    """
    given = []
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals:
            name, path = Path(text).stem, text
        if not is_name(name):
            raise LarcError(f"--state {text}: {name!r} is no name; give NAME=STATE.")
        given.append((name, read_slow(path)))
    return given


def load_models(
    substrates: Sequence[str], states: Sequence[tuple[str, SlowState]], rule: str = ""
) -> Models:
    """Load the models and slow states that templates may name.

    A model's states come in the order they are given, and the untrained one last; what is first is
    what a template gets that names nothing.

    Parameters
    ----------
    substrates
        What `larc.load_substrate` takes.
    states
        Slow states of any of the models, by their names.
    rule
        The update rule of streams whose template names none.

    Examples
    --------
    >>> models = load_models(["tiny"], [])
    >>> [(one.model, one.state) for one in models.starts]
    [('tiny', 'untrained')]
    """
    loaded = [load_substrate(name) for name in substrates]
    if len({one.name for one in loaded}) < len(loaded):
        raise LarcError("--substrate names one model twice; name each once.")
    by_model: dict[str, list[Start]] = {one.name: [] for one in loaded}
    for name, slow in states:
        start = _start(loaded, name, slow)
        if name in {one.state for one in by_model[start.model]} | {UNTRAINED}:
            raise LarcError(f"--state {name}: {start.model} has a state {name!r} already.")
        by_model[start.model].append(start)
    starts = []
    for substrate in loaded:
        # Two thirds up: deeper than the input learns in fewer steps, and costs less.
        boundary = 2 * substrate.layers // 3
        slow = SlowState.initial(substrate, seed=_SEED, boundary=boundary)
        starts += [*by_model[substrate.name], Start(substrate, slow, substrate.name, UNTRAINED)]
    return Models(starts, rule)


def _start(loaded: Sequence[Substrate], name: str, slow: SlowState) -> Start:
    """Return a slow state with the model it belongs to."""
    for substrate in loaded:
        if substrate.identity.digest == slow.substrate and substrate.acts_on == slow.acts_on:
            slow.check_fits(substrate)
            return Start(substrate, slow.to(substrate.device), substrate.name, name)
    if len(loaded) == 1:
        slow.check_fits(loaded[0])
    raise LarcError(f"--state {name} belongs to none of the models; give its --substrate, too.")
