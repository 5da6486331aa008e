"""Feedback that arrives late: questions in time, many states answering them, labels afterwards.

Nothing here knows what is asked. What a question's prompt shows of the past, and who else answers
it, is the business of the room that supplies the questions. `larc.stream.session` holds the states;
it is not imported from here, so that what needs no model stays light.
"""

from larc.stream.bounds import Bound
from larc.stream.forecaster import Forecast, Forecaster, ForecasterSettings
from larc.stream.items import Item, PlainRoom, Room
from larc.stream.naps import Naps
from larc.stream.paths import PathSpec
from larc.stream.queue import Arrive, Ask, order_events, split_streams

__all__ = [
    "Arrive",
    "Ask",
    "Bound",
    "Forecast",
    "Forecaster",
    "ForecasterSettings",
    "Item",
    "Naps",
    "PathSpec",
    "PlainRoom",
    "Room",
    "order_events",
    "split_streams",
]
