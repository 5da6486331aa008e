"""The playground: a prompt and candidates of one's own, feedback, and a state that learns it.

It has a stream of its own among the visitor's, with a state that is kept beside one that is reset.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import ValidationError
from sqlalchemy.engine import Connection

from larc.service.auth import Principal
from larc.service.dashboard.questions import QuestionView, one_question
from larc.service.dashboard.rendering import PageRoute, form, page, see
from larc.service.dashboard.sessions import Visitor, check_form
from larc.service.http import questions as asking
from larc.service.http import streams as api
from larc.service.http.context import Context, Here
from larc.service.problems import Problem
from larc.service.protocol import (
    ID,
    Expiry,
    LabelBody,
    QuestionBody,
    RollbackBody,
    StreamBody,
)
from larc.service.store.reading import stream_row

router = APIRouter(route_class=PageRoute, include_in_schema=False)
#: What is in the form at first.
PROMPT = "The invoice of May is wrong.\nQueue: "
CANDIDATES = ("billing", "support", "sales")
#: A question that nobody answers is forgotten after so many seconds.
_EXPIRES = 3600.0
#: The most steps of one click.
MOST_STEPS = 20
KEPT = "keep"
Question = Annotated[str, Query(pattern=ID)]


def name_for(who: Principal) -> str | None:
    """Return the name of a visitor's playground: the first that is the token's.

    Examples
    --------
    >>> [name_for(Principal("a", frozenset(), (glob,))) for glob in ("acme.*", "b")]
    ['acme.playground', None]
    """
    for glob in who.streams:
        if "*" in glob and "?" not in glob:
            name = glob.replace("*", "playground", 1).replace("*", "")
            if who.sees(name):
                return name
    return None


@router.get("/playground")
async def get_playground(
    request: Request,
    here: Here,
    who: Visitor,
    question: Question | None = None,
    before: Question | None = None,
) -> Response:
    """Show the playground: the form, and what the state answers now."""
    who.check("read")
    stream = name_for(who)

    def find(connection: Connection) -> tuple[QuestionView | None, QuestionView | None, Any]:
        if stream is None:
            return None, None, None
        try:
            row = stream_row(connection, stream)
        except Problem:
            return None, None, None
        now = one_question(connection, row.id, question) if question else None
        then = one_question(connection, row.id, before) if before else None
        return now, then, row

    now, then, row = await here.read(find)
    return page(
        request,
        "playground.html",
        who,
        stream=stream,
        row=row,
        now=now,
        bars=_bars(now, then),
        moved=then is not None,
        prompt=now.prompt if now else PROMPT,
        candidates=now.candidates if now else CANDIDATES,
        may_ask={"ask", "label"} <= who.scopes,
        may_reset="admin" in who.scopes,
        most=MOST_STEPS,
    )


def _policy(view: QuestionView | None, name: str = KEPT) -> list[float] | None:
    return next((v.policy for v in view.voices if v.name == name), None) if view else None


def _bars(now: QuestionView | None, then: QuestionView | None) -> list[dict[str, Any]]:
    """Return a bar for each candidate: what the state gives it, and what it gave it before."""
    policy, earlier = _policy(now), _policy(then)
    if now is None or policy is None:
        return []
    if earlier is None or len(earlier) != len(policy):
        earlier = None
    return [
        {
            "index": index,
            "text": now.candidates[index],
            "now": part,
            "before": None if earlier is None else earlier[index],
        }
        for index, part in enumerate(policy)
    ]


@router.post("/playground/ask")
async def post_ask(request: Request, here: Here, who: Visitor) -> Response:
    """Ask what was typed; a question of before that has no label gets none any more."""
    stream, fields = await _ready(request, who)
    lines = [line.strip() for line in fields.get("candidates", "").splitlines()]
    prompt = fields.get("prompt", "").replace("\r\n", "\n")
    expiry = Expiry(after_s=_EXPIRES)
    await api.put_stream(stream, here, who, StreamBody(template="playground", expiry=expiry))
    name = await _ask(here, who, stream, prompt, [line for line in lines if line])
    await _drop(here, who, stream, fields.get("question"))
    return see(_address(name))


@router.post("/playground/feedback")
async def post_feedback(request: Request, here: Here, who: Visitor) -> Response:
    """Say which candidate is right, once or several times, and ask again."""
    stream, fields = await _ready(request, who)
    try:
        label, steps = int(fields.get("label", "")), int(fields.get("steps", "1"))
    except ValueError as error:
        raise Problem("invalid", "choose the candidate that is right.") from error
    if not 1 <= steps <= MOST_STEPS:
        raise Problem("invalid", f"steps are 1 to {MOST_STEPS}.")
    first = last = fields.get("question", "")
    for _ in range(steps):
        view = await _view(here, stream, last)
        if view.status == "awaited":
            body = LabelBody(label=label)
            await asking.post_label(stream, last, body, here, who, "applied")
        last = await _ask(here, who, stream, view.prompt, view.candidates)
    return see(_address(last, first))


@router.post("/playground/reset")
async def post_reset(request: Request, here: Here, who: Visitor) -> Response:
    """Forget what was learned, and ask again."""
    stream, fields = await _ready(request, who)
    who.check("admin", stream)
    await api.post_rollback(stream, RollbackBody(version=0), here, who, "applied")
    before = fields.get("question", "")
    if not before:
        return see("/playground")
    view = await _view(here, stream, before)
    last = await _ask(here, who, stream, view.prompt, view.candidates)
    await _drop(here, who, stream, before)
    return see(_address(last, before))


async def _ready(request: Request, who: Principal) -> tuple[str, dict[str, str]]:
    """Return the visitor's playground and the fields of a form, refusing who may not use it."""
    fields = await form(request)
    check_form(request, fields.get("form_key", ""))
    stream = name_for(who)
    if stream is None:
        raise Problem("forbidden", "the token is for single streams; none of them is to play with.")
    who.check("ask", stream)
    who.check("label", stream)
    return stream, fields


async def _view(here: Context, stream: str, name: str) -> QuestionView:
    return await here.read(lambda c: one_question(c, stream_row(c, stream).id, name))


async def _ask(
    here: Context, who: Principal, stream: str, prompt: str, candidates: list[str]
) -> str:
    try:
        body = QuestionBody(prompt=prompt, candidates=candidates)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise Problem("invalid", f"{first['loc'][0]}: {first['msg']}.") from error
    _, answer = await asking.ask(here, who, stream, body)
    return str(answer["id"])


async def _drop(here: Context, who: Principal, stream: str, name: str | None) -> None:
    """Say that a question will get no label, if it waits for one."""
    if name and (await _view(here, stream, name)).status == "awaited":
        await asking.delete_question(stream, name, here, who)


def _address(question: str, before: str = "") -> str:
    return f"/playground?question={question}" + (f"&before={before}" if before else "")
