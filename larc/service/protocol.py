"""What goes over the wire: bodies of requests and answers, and their limits."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

#: The most of each that a request may hold.
BODY_BYTES = 2**20
MOST_CANDIDATES = 64
MOST_QUESTIONS = 256
PROMPT_CHARACTERS = 100_000

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
ID = r"^[ -~]{1,200}$"
Mode = Literal["observe", "learn", "frozen"]
Scope = Literal["ask", "label", "read", "admin"]


def _text(value: str) -> str:
    # PostgreSQL keeps no NUL, and half of a surrogate pair is no text at all.
    if "\0" in value:
        raise ValueError("a text holds the character NUL; leave it out")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError("a text holds half of a surrogate pair; send whole characters") from error
    return value


Text = Annotated[str, AfterValidator(_text)]
Name = Annotated[str, Field(pattern=NAME, examples=["tickets.acme"])]
Identifier = Annotated[str, Field(pattern=ID, examples=["ticket-17"])]
Candidates = Annotated[
    list[Annotated[Text, Field(min_length=1, max_length=10_000)]],
    Field(min_length=1, max_length=MOST_CANDIDATES),
]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Index = Annotated[int, Field(strict=True)]
When = Annotated[float | None, Field(ge=0, le=1e11, allow_inf_nan=False)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class StrategySpec(_Strict):
    """One state of a stream: how it lives."""

    name: Annotated[str, Field(pattern=NAME)]
    view: Literal["plain", "remembered"] = "plain"
    retention: Literal["keep", "reset", "latest"] = "keep"
    sham: bool = False
    scale: Annotated[float, Field(gt=0, le=10)] = 1.0
    rule: Annotated[str, Field(max_length=100)] = ""


class TemplateSpec(_Strict):
    """What streams are made from. It never changes under its name.

    ``model`` and ``slow_state`` name what the service was started with, the first where they are
    left out. ``given`` names experts whose probabilities come with every question; ``solo``
    computes every event of a stream by itself, so that not even rounding depends on other streams.
    Streams of the domain ``ci`` are of jobs, which GitHub's webhooks bring: they have HEDGE4 and
    its experts, and strategies with the view ``remembered`` see earlier cases in the prompt.
    """

    model: Annotated[str, Field(max_length=200, examples=["smollm2-135m"])] = ""
    slow_state: Annotated[str, Field(max_length=200, examples=["untrained"])] = ""
    strategies: Annotated[list[StrategySpec], Field(min_length=1, max_length=8)] = [
        StrategySpec(name="keep"),
        StrategySpec(name="reset", retention="reset"),
    ]
    experts: Annotated[list[Literal["prior", "last", "hashed"]], Field(max_length=3)] = [
        "prior",
        "last",
        "hashed",
    ]
    given: Annotated[list[Annotated[str, Field(pattern=NAME)]], Field(max_length=8)] = []
    rule: Annotated[str, Field(max_length=100)] = ""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    sleep: bool = True
    solo: bool = False
    domain: Literal["", "ci"] = ""

    @model_validator(mode="after")
    def _views(self) -> TemplateSpec:
        if not self.domain and any(one.view != "plain" for one in self.strategies):
            raise ValueError('the view "remembered" is for the domain "ci"')
        return self

    def kept(self) -> dict[str, Any]:
        """Return what is kept of it; what was added later is left out where it says nothing."""
        values = self.model_dump()
        for strategy in values["strategies"]:
            if strategy["view"] == "plain":
                del strategy["view"]
        if not self.domain:
            del values["domain"]
        return values


class Expiry(_Strict):
    """What becomes of a question whose label never came."""

    after_s: Annotated[float, Field(gt=0, le=1e9)]
    then: Literal["drop", "label"] = "drop"
    label: Index | Text | None = None

    @model_validator(mode="after")
    def _with_label(self) -> Expiry:
        if (self.then == "label") != (self.label is not None):
            raise ValueError('a default label is given with "then": "label", and only there')
        return self


class StreamBody(_Strict):
    """Make a stream."""

    template: Name = "default"
    mode: Mode = "learn"
    expiry: Expiry | None = None


class ModeBody(_Strict):
    """Change what a stream does with labels."""

    mode: Mode


class QuestionBody(_Strict):
    """Ask: a prompt and the candidates to choose among."""

    id: Identifier | None = None
    prompt: Annotated[Text, Field(min_length=1, max_length=PROMPT_CHARACTERS)]
    candidates: Candidates
    context: Annotated[Text, Field(max_length=200)] = ""
    experts: dict[
        Annotated[str, Field(max_length=100)],
        Annotated[list[Finite], Field(max_length=MOST_CANDIDATES)],
    ] = {}
    occurred_at: When = None

    def event(self) -> dict[str, Any]:
        """Return what the log keeps of it; two bodies are the same where these are."""
        kept: dict[str, Any] = {"prompt": self.prompt, "candidates": self.candidates}
        if self.context:
            kept["context"] = self.context
        if self.experts:
            kept["experts"] = self.experts
        return kept


class LabelBody(_Strict):
    """Say which candidate was right, by its index or text, or what each of them cost."""

    label: Index | Text | None = None
    losses: Annotated[list[Finite], Field(min_length=1, max_length=MOST_CANDIDATES)] | None = None
    occurred_at: When = None

    @model_validator(mode="after")
    def _one_of_them(self) -> LabelBody:
        if (self.label is None) == (self.losses is None):
            raise ValueError("give either a label or losses")
        return self

    def event(self) -> dict[str, Any]:
        """Return what the log keeps of it."""
        return {"label": self.label} if self.losses is None else {"losses": self.losses}


class CorrectionBody(LabelBody):
    """Say that a label was wrong; with ``relearn``, learn again from before it."""

    relearn: bool = False

    def event(self) -> dict[str, Any]:
        """Return what the log keeps of it."""
        return {**super().event(), "relearn": self.relearn}


class StreamQuestion(QuestionBody):
    """A question of a batch: with the stream it belongs to."""

    stream: Name


class QuestionsBody(_Strict):
    """Ask several questions, of one stream or of many."""

    questions: Annotated[list[StreamQuestion], Field(min_length=1, max_length=MOST_QUESTIONS)]


class SnapshotBody(_Strict):
    """Keep a stream's state as it is when this takes effect."""

    label: Annotated[Text, Field(max_length=200)] = ""


class RollbackBody(_Strict):
    """Go back to a version that was kept; labels since then are learned again if asked."""

    version: Annotated[int, Field(ge=0, le=2**62)]
    replay: bool = False


class EvaluationBody(_Strict):
    """Replay a stream's log with states kept, reset and sham."""

    draws: Annotated[int, Field(ge=100, le=10_000)] = 1000
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1


class TokenBody(_Strict):
    """Make a token: what it may do, and with which streams (globs)."""

    scopes: Annotated[list[Scope], Field(min_length=1, max_length=4)]
    streams: Annotated[
        list[Annotated[str, Field(pattern=r"^[A-Za-z0-9._*?-]{1,100}$")]],
        Field(min_length=1, max_length=64),
    ]
    note: Annotated[Text, Field(max_length=200)] = ""
    expires_in_s: Annotated[float, Field(gt=0, le=1e10)] | None = None


# Answers -----------------------------------------------------------------------------------------


class ProblemAnswer(BaseModel):
    """A refusal (RFC 9457): ``code`` is for programs, ``detail`` for people."""

    type: str
    title: str
    status: int
    code: str
    detail: str


class Answer(BaseModel):
    """What was answered to a question, for ever.

    ``probabilities`` are the mixture's, or in the mode ``observe`` those of nobody who learns.
    ``scored`` is false where the label was known to the service before the answer was made; such
    an answer counts nowhere.
    """

    id: str
    seq: int
    probabilities: list[float]
    state_version: int
    weights: dict[str, float]
    said: dict[str, list[float]]
    mixture: list[float]
    mode: Mode
    scored: bool


class Acknowledged(BaseModel):
    """What became of something that was reported."""

    seq: int
    status: str
    duplicate: bool = False
    reason: str | None = None
    state_version: int | None = None


class QuestionAnswer(BaseModel):
    """A question, its status and what was answered."""

    id: str
    status: str
    answer: Answer | None


class BatchEntry(BaseModel):
    """What became of one question of a batch."""

    status: int
    answer: Answer | None = None
    problem: ProblemAnswer | None = None


class BatchAnswer(BaseModel):
    """What became of a batch, question by question."""

    answers: list[BatchEntry]


class Loss(BaseModel):
    """A predictor's losses on scored answers: half-Brier under labels, expected under losses."""

    sum: float
    count: int


class StreamAnswer(BaseModel):
    """A stream as it is now."""

    name: str
    template: str
    mode: Mode
    expiry: Expiry | None
    asked: int
    labelled: int
    awaited: int
    state_version: int
    last_seq: int
    applied_seq: int
    losses: dict[str, Loss]
    risks: dict[str, Loss]
    weights: dict[str, float]
    bound: float | None
    slow: str
    created_at: float


class StreamsAnswer(BaseModel):
    """A page of streams; the next begins after ``after``."""

    streams: list[StreamAnswer]
    after: str | None


class EventAnswer(BaseModel):
    """One event of a stream's log."""

    seq: int
    kind: str
    key: str
    body: Any
    status: str
    reason: str | None
    occurred_at: float | None
    received_at: float
    answer: Any = None


class EventsAnswer(BaseModel):
    """A part of a stream's log, in order."""

    events: list[EventAnswer]
    last_seq: int


class SnapshotAnswer(BaseModel):
    """A version that was kept."""

    version: int
    seq: int
    label: str
    created_at: float


class SnapshotsAnswer(BaseModel):
    """The versions that were kept."""

    snapshots: list[SnapshotAnswer]


class EvaluationAnswer(BaseModel):
    """An evaluation: running, or with what came of it.

    It begins again where the process ends while it runs; ``failed`` if that happens too often.
    """

    id: str
    status: Literal["running", "done", "refused", "failed"]
    result: dict[str, Any]


class TokenAnswer(BaseModel):
    """A token as it is known: never the secret, but for the answer that makes it."""

    id: str
    scopes: list[Scope]
    streams: list[str]
    note: str
    created_at: float
    expires_at: float | None
    revoked: bool
    token: str | None = None


class TokensAnswer(BaseModel):
    """All tokens."""

    tokens: list[TokenAnswer]


class TemplateAnswer(BaseModel):
    """A template, with the digests of the slow state and the model that its streams start from."""

    name: str
    spec: TemplateSpec
    slow: str
    substrate: str


def is_name(text: str) -> bool:
    """Whether a text may name a stream.

    Examples
    --------
    >>> is_name("tickets.acme"), is_name("../x")
    (True, False)
    """
    return re.fullmatch(NAME, text) is not None


def loss_of(probabilities: list[float], value: int | tuple[float, ...]) -> float:
    """Return the half-Brier loss under a label, or the expected loss under losses.

    Examples
    --------
    >>> loss_of([0.5, 0.5], 0), loss_of([0.5, 0.5], (0.0, 1.0))
    (0.25, 0.5)
    """
    if isinstance(value, int):
        half = 0.5 * (math.fsum(p * p for p in probabilities) + 1.0)
        return half - probabilities[value]
    return math.fsum(p * loss for p, loss in zip(probabilities, value, strict=True))


Facts = Mapping[str, Any]
