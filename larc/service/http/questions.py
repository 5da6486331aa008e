"""Questions and what is reported about them."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, Literal

import sqlalchemy as sa
from fastapi import APIRouter, Header, Path, Query, Response
from fastapi.responses import JSONResponse
from sqlalchemy.engine import Connection

from larc.errors import LarcError
from larc.feedback import checked_candidates
from larc.io.hashes import hash_json
from larc.service.auth import Principal
from larc.service.http.context import Context, Here, Who, described, refusals
from larc.service.identifiers import new_id
from larc.service.problems import Problem
from larc.service.protocol import (
    ID,
    NAME,
    Acknowledged,
    Answer,
    BatchAnswer,
    CorrectionBody,
    LabelBody,
    QuestionAnswer,
    QuestionBody,
    QuestionsBody,
)
from larc.service.store.log import Command
from larc.service.store.reading import stream_row
from larc.service.store.schema import answer, event

router = APIRouter(prefix="/v1", tags=["questions"])
StreamName = Annotated[str, Path(pattern=NAME, description="The stream.")]
QuestionName = Annotated[str, Path(pattern=ID, description="The question.")]
Wait = Annotated[Literal["applied"] | None, Query(description="Wait until it has taken effect.")]
Key = Annotated[
    str | None,
    Header(alias="Idempotency-Key", pattern=ID, description="Makes a repetition safe."),
]


async def ask(
    here: Context, who: Principal, stream: str, body: QuestionBody
) -> tuple[int, dict[str, Any]]:
    """Ask a question; returns the status and the answer."""
    who.check("ask", stream)
    try:
        checked_candidates(body.candidates)
    except LarcError as error:
        raise Problem("invalid", str(error)) from error
    name = body.id or new_id()
    command = Command(stream, "question", name, body.event(), who.id, body.occurred_at)
    taken = await here.take(command)
    if taken.answer is not None:
        return 200, taken.answer
    outcome = await here.outcome(taken)
    return (201 if taken.new else 200), dict(outcome.answer or {})


@router.post(
    "/streams/{stream}/questions",
    status_code=201,
    response_model=Answer,
    responses={
        **described(200, "The question was asked before; this was its answer.", Answer),
        **refusals("forbidden", "not-found", "other-body", "stream-full", "late"),
    },
)
async def post_question(stream: StreamName, body: QuestionBody, here: Here, who: Who) -> Response:
    """Ask a question now; its label comes later, by its id.

    The same id with the same body gives the same answer for ever.
    """
    status, reply = await ask(here, who, stream, body)
    return JSONResponse(reply, status)


@router.get(
    "/streams/{stream}/questions/{question}",
    response_model=QuestionAnswer,
    responses=refusals("forbidden", "not-found"),
)
async def get_question(
    stream: StreamName, question: QuestionName, here: Here, who: Who
) -> dict[str, Any]:
    """Show a question's status and answer."""
    who.check("read", stream)

    def find(connection: Connection) -> dict[str, Any]:
        row = stream_row(connection, stream)
        asked = connection.execute(
            sa.select(event.c.status).where(
                event.c.stream == row.id, event.c.kind == "question", event.c.key == question
            )
        ).scalar()
        if asked is None:
            raise Problem("not-found", f"there is no question {question!r}.")
        given = connection.execute(
            sa.select(answer.c.body).where(answer.c.stream == row.id, answer.c.question == question)
        ).scalar()
        return {
            "id": question,
            "status": asked,
            "answer": None if given is None else json.loads(given),
        }

    return await here.read(find)


@router.post(
    "/questions:batch",
    status_code=207,
    response_model=BatchAnswer,
    responses=refusals("forbidden"),
)
async def post_questions(body: QuestionsBody, here: Here, who: Who) -> Response:
    """Ask up to 256 questions of any streams; each has its own status."""

    async def one(number: int) -> dict[str, Any]:
        question = body.questions[number]
        try:
            status, reply = await ask(here, who, question.stream, question)
        except Problem as problem:
            return {"status": problem.status, "problem": problem.body()}
        return {"status": status, "answer": reply}

    answers = await asyncio.gather(*(one(number) for number in range(len(body.questions))))
    return JSONResponse({"answers": answers}, 207)


async def report(
    here: Context, who: Principal, command: Command, *, wait: bool
) -> tuple[int, dict[str, Any]]:
    """Put something that is reported into the log; returns the status and what became of it."""
    taken = await here.take(command)
    reply = {"seq": taken.seq, "status": taken.status, "duplicate": not taken.new}
    if wait and taken.status not in ("early", "applied", "scored"):
        outcome = await here.outcome(taken)
        version = (outcome.answer or {}).get("state_version")
        return 200, {**reply, "status": outcome.status, "state_version": version}
    if taken.status in ("applied", "scored"):
        return 200, reply
    return (202 if taken.new else 200), reply


@router.post(
    "/streams/{stream}/questions/{question}/label",
    status_code=202,
    response_model=Acknowledged,
    responses={
        **described(200, "It has taken effect, or was reported before.", Acknowledged),
        **refusals(
            "forbidden", "not-found", "other-label", "expired", "dropped", "refused", "late"
        ),
    },
)
async def post_label(
    stream: StreamName,
    question: QuestionName,
    body: LabelBody,
    here: Here,
    who: Who,
    wait: Wait = None,
) -> Response:
    """Report which candidate was right, or what each cost; it is stored before this answers.

    Before its question it is kept as early. The same again is 200, another label 409.
    """
    who.check("label", stream)
    command = Command(stream, "label", question, body.event(), who.id, body.occurred_at)
    status, reply = await report(here, who, command, wait=wait is not None)
    return JSONResponse(reply, status)


@router.post(
    "/streams/{stream}/questions/{question}/used",
    status_code=204,
    responses=refusals("forbidden", "not-found"),
)
async def post_used(stream: StreamName, question: QuestionName, here: Here, who: Who) -> Response:
    """Report that the answer was acted on."""
    who.check("label", stream)
    await here.take(Command(stream, "used", question, {"question": question}, who.id))
    return Response(status_code=204)


@router.delete(
    "/streams/{stream}/questions/{question}",
    status_code=204,
    responses=refusals("forbidden", "not-found", "other-label", "dropped"),
)
async def delete_question(
    stream: StreamName, question: QuestionName, here: Here, who: Who
) -> Response:
    """Say that no label will come: nothing is learned from the question."""
    who.check("label", stream)
    await here.take(Command(stream, "drop", question, {}, who.id))
    return Response(status_code=204)


@router.post(
    "/streams/{stream}/questions/{question}/correction",
    status_code=202,
    response_model=Acknowledged,
    responses={
        **described(200, "It has taken effect, or was reported before.", Acknowledged),
        **refusals("forbidden", "not-found", "not-labelled", "other-body", "refused", "late"),
    },
)
async def post_correction(
    stream: StreamName,
    question: QuestionName,
    body: CorrectionBody,
    here: Here,
    who: Who,
    wait: Wait = None,
    key: Key = None,
) -> Response:
    """Report that a label was wrong; losses are counted anew, and learned anew if asked.

    The same correction again is the same one; with an Idempotency-Key it may come a second time.
    """
    who.check("label", stream)
    content = {"question": question, **body.event()}
    name = key or f"{hash_json(content)[:32]}"
    command = Command(stream, "correction", name, content, who.id, body.occurred_at)
    status, reply = await report(here, who, command, wait=wait is not None)
    return JSONResponse(reply, status)
