"""One dataclass per command: it is the command line, the YAML file and the saved config."""

from __future__ import annotations

import argparse
import difflib
import math
import reprlib
import types
from collections.abc import Iterable, Mapping
from dataclasses import Field, asdict, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from larc.errors import LarcError, reason

S = TypeVar("S")
_TRUTHS = {"yes": True, "true": True, "no": False, "false": False}


def setting(
    default: Any,
    help: str,
    *,
    free: bool = False,
    later: bool = False,
    earlier: Any = None,
    least: int | None = None,
    most: int | None = None,
) -> Any:
    """Declare a field of a settings dataclass: its default, and the sentence shown for it.

    A ``free`` one changes no result, and may change while a run goes on. A ``later`` one came when
    there were runs already: a run is known by it only where it is not the default, so that older
    runs are still theirs. Where those runs did something else than the default, ``earlier`` is what
    they did. A number, and each of several, is refused below ``least`` and above ``most``.
    """
    metadata = {"help": help, "free": free, "least": least, "most": most}
    if later or earlier is not None:
        metadata["earlier"] = default if earlier is None else earlier
    return field(default=default, metadata=metadata)


def build(cls: type[S], values: Mapping[str, Any], base: S | None = None) -> S:
    """Make settings from named values, refusing an unknown name or a value of the wrong type.

    Parameters
    ----------
    cls
        The dataclass.
    values
        Values by field name, as read from YAML, JSON or the command line (texts are converted).
    base
        Settings that hold where nothing is given; the defaults otherwise.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Bake:
    ...     minutes: int = setting(30, "How long.", least=1)
    >>> build(Bake, {"minutes": "45"})
    Bake(minutes=45)
    >>> build(Bake, {"minuets": 45})
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: there is no setting 'minuets'; did you mean 'minutes'?
    >>> build(Bake, {"minutes": "long"})
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: setting 'minutes' got 'long'; it takes a whole number, 1 or more.
    """
    hints = get_type_hints(cls)
    known = {item.name: item for item in fields(cls)}  # type: ignore[arg-type]  # a dataclass
    checked = {}
    for raw, value in values.items():
        name = str(raw).replace("-", "_")
        if name not in known:
            raise LarcError(f"there is no setting {raw!r}; {nearest(name, known)}")
        checked[name] = _convert(name, hints[name], value, known[name])
    return replace(base, **checked) if base is not None else cls(**checked)  # type: ignore[type-var]  # a dataclass


def nearest(name: str, known: Iterable[str]) -> str:
    """Suggest the closest known name, or list them all."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(known)}."


def _convert(name: str, hint: Any, value: Any, item: Field[Any]) -> Any:
    """Return a value as the type that a field declares, or say what the field takes."""
    least, most = item.metadata.get("least"), item.metadata.get("most")
    try:
        result = _converted(hint, value)
        numbers = result if type(result) is tuple else [result]
        if least is not None and any(n < least for n in numbers):
            raise ValueError
        if most is not None and any(n > most for n in numbers):
            raise ValueError
    except (TypeError, ValueError, OverflowError, RecursionError):
        # Not all of it: a few lines of YAML can stand for more than a machine holds.
        shown = reprlib.repr(value)
        takes = describe(hint) + ("" if least is None else f", {least} or more")
        takes += "" if most is None else f", {most} or less"
        raise LarcError(f"setting {name!r} got {shown}; it takes {takes}.") from None
    return result


def _converted(hint: Any, value: Any) -> Any:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        options = get_args(hint)
        if type(None) in options and (value is None or value == ""):
            return None
        return _converted(next(option for option in options if option is not type(None)), value)
    if origin is Literal:
        if value not in get_args(hint):
            raise ValueError
        return value
    if origin is tuple:
        given = value if isinstance(value, list | tuple) else [value]
        parts = [
            part for one in given for part in (one.split(",") if isinstance(one, str) else [one])
        ]
        return tuple(_converted(get_args(hint)[0], part) for part in parts)
    if hint is bool:
        if isinstance(value, bool):
            return value
        if str(value).lower() not in _TRUTHS:
            raise ValueError
        return _TRUTHS[str(value).lower()]
    if hint is int:
        if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
            raise ValueError
        return int(value)
    if hint is float:
        if isinstance(value, bool):
            raise ValueError
        if not math.isfinite(number := float(value)):
            raise ValueError
        return number
    if hint is str:
        if not isinstance(value, str):
            raise ValueError
        return value
    raise TypeError(hint)


def describe(hint: Any) -> str:
    """Say in words what a field takes."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return " or nothing, or ".join(
            describe(option) for option in get_args(hint) if option is not type(None)
        )
    if origin is Literal:
        return f"one of {', '.join(map(str, get_args(hint)))}"
    if origin is tuple:
        return f"values separated by commas, each {describe(get_args(hint)[0])}"
    return {int: "a whole number", float: "a finite number", bool: "yes or no"}.get(hint, "a text")


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Read settings from a YAML file."""
    try:
        values = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except Exception as error:  # YAML's own errors, and what its numbers and dates may raise
        raise LarcError(f"the settings in {path} could not be read ({reason(error)}).") from error
    if not isinstance(values, dict):
        raise LarcError(f"{path} holds no settings; write one `name: value` per line.")
    return values


def as_values(settings: Any) -> dict[str, Any]:
    """Return settings as plain values for saving; `build` makes the same settings of them."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(settings).items()
    }


def identifying(settings: Any) -> dict[str, Any]:
    """Return the settings that decide a result, as plain values: what a run is known by."""
    left_out = {
        item.name
        for item in fields(settings)
        if item.metadata.get("free")
        or ("earlier" in item.metadata and getattr(settings, item.name) == item.metadata["earlier"])
    }
    return {name: value for name, value in as_values(settings).items() if name not in left_out}


def restored(cls: type[S], values: Mapping[str, Any]) -> S:
    """Make the settings that a run was started with of what it is known by.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Bake:
    ...     oven: str = setting("electric", "Which one.", earlier="wood")
    >>> restored(Bake, {}), restored(Bake, {"oven": "electric"})
    (Bake(oven='wood'), Bake(oven='electric'))
    """
    return build(cls, {**earlier_values(cls), **values})


def earlier_values(cls: type[Any]) -> dict[str, Any]:
    """Return what runs did before there was a setting for it, by the setting's name."""
    known = {item.name: item.metadata for item in fields(cls)}
    return {name: facts["earlier"] for name, facts in known.items() if "earlier" in facts}


def add_options(parser: argparse._ActionsContainer, cls: type[Any]) -> None:
    """Give a command one option per field; what is not given stays out of the result."""
    hints = get_type_hints(cls)
    for item in fields(cls):
        flag: dict[str, Any] = {}
        if hints[item.name] is bool:
            flag = {"nargs": "?", "const": "yes"}
        elif get_origin(hints[item.name]) is tuple:
            flag = {"nargs": "+"}  # separated by blanks or commas
        parser.add_argument(
            f"--{item.name.replace('_', '-')}",
            dest=item.name,
            default=argparse.SUPPRESS,
            metavar=_metavar(hints[item.name]),
            help=_help(item),
            **flag,
        )


def _metavar(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "|".join(map(str, get_args(hint)))
    if get_origin(hint) is tuple:
        return "A,B"
    return {int: "N", float: "X", bool: "yes|no"}.get(hint, "TEXT")


def _help(item: Field[Any]) -> str:
    text = str(item.metadata.get("help", ""))
    default = ",".join(map(str, item.default)) if isinstance(item.default, tuple) else item.default
    shown = f"{text} [{default}]" if default not in (None, "") else text
    return shown.replace("%", "%%")
