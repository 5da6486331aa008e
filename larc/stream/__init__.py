"""Feedback that arrives late: questions in time, many states answering them, labels afterwards.

Nothing here knows what is asked. What a question's prompt shows of the past is the business of a
prompter, and who else answers it that of experts. `larc.stream.session` holds the states; it is not
imported from here, so that what needs no model stays light.
"""

import warnings
from typing import Any

from larc.stream.experts import Expert, LabelFrequency
from larc.stream.mixing.bounds import Bound
from larc.stream.mixing.forecaster import Forecast, Forecaster, ForecasterSettings
from larc.stream.mixing.sleep import SleepSettings
from larc.stream.prompter import PlainPrompter, Prompter
from larc.stream.question import Labelled, Question, Recorded
from larc.stream.queue import Arrive, Ask, order_events, split_streams
from larc.stream.strategies import Strategy

__all__ = [
    "Arrive",
    "Ask",
    "Bound",
    "Expert",
    "Forecast",
    "Forecaster",
    "ForecasterSettings",
    "LabelFrequency",
    "Labelled",
    "PlainPrompter",
    "Prompter",
    "Question",
    "Recorded",
    "SleepSettings",
    "Strategy",
    "order_events",
    "split_streams",
]


def _path_spec(name: str, view: str = "plain", retention: str = "carry", **others: Any) -> Strategy:
    others["sham"] = others.pop("permuted", False)
    return Strategy(name, view, "keep" if retention == "carry" else retention, **others)  # type: ignore[arg-type]  # checked there


def _item(
    name: str,
    asked: float,
    arrives: float | None,
    candidates: tuple[str, ...],
    label: int,
    prompt: str = "",
    stream: str = "",
    group: str = "",
    source: Any = None,
) -> Recorded:
    question = Question(name, candidates, prompt, source)
    return Recorded(question, asked, arrives, label, stream, group)


#: Names of version 0.1, and what stands for them until version 0.3.
_OLD = {
    "Item": (_item, "Question, or Recorded in a replay"),
    "Naps": (SleepSettings, "SleepSettings"),
    "PathSpec": (_path_spec, "Strategy"),
    "PlainRoom": (PlainPrompter, "PlainPrompter"),
    "Room": (Prompter, "Prompter"),
}


def __getattr__(name: str) -> Any:
    if name not in _OLD:
        raise AttributeError(f"module 'larc.stream' has no attribute {name!r}")
    value, now = _OLD[name]
    warnings.warn(
        f"larc.stream.{name} is now {now}; this alias goes with version 0.3.",
        DeprecationWarning,
        stacklevel=2,
    )
    return value
