"""OpenAI's shape: generation and scoring under a stream's state.

Nothing here changes a stream, since clients of this shape repeat requests by themselves; only who
names a question (``larc={"question_id": ..., "candidates": [...]}``) asks one.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, Field

from larc.service.auth import Principal
from larc.service.generating import (
    Sampling,
    Token,
    View,
    chat_prompt,
    encode,
    encode_chat,
    generate,
    score,
    view,
)
from larc.service.http.context import Context, Here, Who
from larc.service.http.questions import ask
from larc.service.identifiers import new_id
from larc.service.problems import Problem
from larc.service.protocol import (
    PROMPT_CHARACTERS,
    Candidates,
    Identifier,
    QuestionBody,
    Text,
    is_name,
)
from larc.service.store.reading import list_streams

router = APIRouter(prefix="/v1", tags=["openai"])
PATHS = ("/v1/models", "/v1/chat/completions", "/v1/completions")
PREFIX = "larc:"
_END = "data: [DONE]\n\n"


class Named(BaseModel):
    """A question that is asked of the stream, and not only generated."""

    question_id: Identifier
    candidates: Candidates


class _Common(BaseModel):
    model: Annotated[str, Field(max_length=250, examples=["larc:tickets.acme"])]
    max_tokens: Annotated[int, Field(ge=0, le=1024)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    n: Annotated[int, Field(ge=1, le=1)] | None = None
    stream: bool | None = None
    stop: list[Text] | Text | None = None
    larc: Named | None = None

    def stops(self) -> list[str]:
        stop = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return [text for text in stop if text]


class CompletionBody(_Common):
    """Complete a prompt, or score it with ``echo`` and no tokens."""

    prompt: Annotated[Text, Field(min_length=1, max_length=PROMPT_CHARACTERS)]
    echo: bool = False
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None


class Message(BaseModel):
    """What somebody said."""

    role: Annotated[str, Field(pattern=r"^[a-z]{1,20}$")]
    content: Annotated[Text, Field(max_length=PROMPT_CHARACTERS)]


class ChatBody(_Common):
    """Answer messages."""

    messages: Annotated[list[Message], Field(min_length=1, max_length=256)]
    max_completion_tokens: Annotated[int, Field(ge=0, le=1024)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=5)] | None = None


def as_error(problem: Problem) -> dict[str, Any]:
    """Return a problem in the shape that clients of OpenAI read."""
    kinds = {401: "authentication_error", 429: "rate_limit_error", 503: "server_error"}
    kind = kinds.get(problem.status, "invalid_request_error")
    return {"error": {"message": problem.detail, "type": kind, "code": problem.code}}


def _refusals() -> dict[int | str, dict[str, Any]]:
    return {
        status: {"description": "Refused, in OpenAI's shape."}
        for status in (400, 401, 403, 404, 409, 413, 422, 429, 503, 507)
    }


@router.get("/models", responses=_refusals())
async def get_models(here: Here, who: Who) -> dict[str, Any]:
    """List the token's streams as models."""
    who.check("read")
    rows = await here.read(lambda c: list_streams(c, who.streams, "", 1000))
    return {
        "object": "list",
        "data": [
            {
                "id": f"{PREFIX}{row.name}",
                "object": "model",
                "created": int(row.created_at),
                "owned_by": "larc",
            }
            for row in rows
        ],
    }


@router.post("/completions", responses=_refusals())
async def post_completion(body: CompletionBody, here: Here, who: Who) -> Response:
    """Complete a prompt under a stream's state; the version is pinned when it starts."""
    name, version = named(who, body.model)
    state = await _view(here, name, version)
    if body.larc is not None:
        return await _asked(here, who, state, body, body.prompt, "text_completion")
    tokens = encode(state.substrate, body.prompt)
    work = Work(here, state, body, tokens, body.logprobs)
    if body.echo:
        work.kept = await work.scored()
    if body.stream:
        return StreamingResponse(work.events("text_completion"), media_type="text/event-stream")
    async for _ in work.pieces():
        pass
    return JSONResponse(work.completion())


@router.post("/chat/completions", responses=_refusals())
async def post_chat(body: ChatBody, here: Here, who: Who) -> Response:
    """Answer messages under a stream's state; the version is pinned when it starts."""
    name, version = named(who, body.model)
    state = await _view(here, name, version)
    messages = [one.model_dump() for one in body.messages]
    prompt = chat_prompt(state.substrate, messages)
    if body.larc is not None:
        return await _asked(here, who, state, body, prompt, "chat.completion")
    if body.max_tokens is None:
        body.max_tokens = body.max_completion_tokens
    top = (body.top_logprobs or 0) if body.logprobs else None
    work = Work(here, state, body, encode_chat(state.substrate, messages), top)
    if body.stream:
        return StreamingResponse(
            work.events("chat.completion.chunk"), media_type="text/event-stream"
        )
    async for _ in work.pieces():
        pass
    return JSONResponse(work.chat())


def named(who: Principal, model: str) -> tuple[str, int | None]:
    """Return the stream and the version that a model's name says."""
    name, _, version = model.removeprefix(PREFIX).partition("@")
    pinned = version.isdigit() and len(version) < 19
    if not model.startswith(PREFIX) or not is_name(name) or (version and not pinned):
        raise Problem("not-found", f"there is no model {model!r}; give larc:STREAM[@VERSION].")
    who.check("read", name)
    return name, int(version) if version else None


async def _view(here: Context, name: str, version: int | None) -> View:
    return await here.read(lambda c: view(here.engine.models, c, name, version))


async def _asked(
    here: Context, who: Principal, state: View, body: _Common, prompt: str, kind: str
) -> Response:
    """Ask a question of the stream: the likeliest candidate is the reply's text."""
    assert body.larc is not None
    name, version = named(who, body.model)
    if version is not None:
        raise Problem("invalid", "a question is asked of a stream as it is; name no version.")
    question = QuestionBody(
        id=body.larc.question_id, prompt=prompt, candidates=body.larc.candidates
    )
    _, reply = await ask(here, who, name, question)
    policy = reply["probabilities"]
    best = body.larc.candidates[policy.index(max(policy))]
    chat = kind == "chat.completion"
    if body.stream:
        kind = "chat.completion.chunk" if chat else kind
    frame = _frame(state, f"larc-{reply['seq']}", kind, body.model, reply["state_version"])
    frame["larc"] = reply
    if body.stream:
        lines = [_line(frame, best, None, chat=chat), _line(frame, "", "stop", chat=chat), _END]
        return StreamingResponse(iter(lines), media_type="text/event-stream")
    choice: dict[str, Any] = {"index": 0, "finish_reason": "stop", "logprobs": None}
    if chat:
        choice["message"] = {"role": "assistant", "content": best}
    else:
        choice["text"] = best
    return JSONResponse({**frame, "choices": [choice]})


def _frame(state: View, name: str, kind: str, model: str, version: int) -> dict[str, Any]:
    return {
        "id": name,
        "object": kind,
        "created": int(time.time()),
        "model": model,
        "system_fingerprint": f"larc-{state.learner.slow.digest[:12]}-{version}",
        "larc": {"state_version": version},
    }


def _line(
    frame: dict[str, Any], piece: str, reason: str | None, *, chat: bool, logprobs: Any = None
) -> str:
    """Return a piece of text, or why there is no more, as a server-sent event."""
    choice: dict[str, Any] = {"index": 0, "finish_reason": reason, "logprobs": logprobs}
    if chat:
        choice["delta"] = {"role": "assistant", "content": piece} if not reason else {}
    else:
        choice["text"] = piece
    return f"data: {json.dumps({**frame, 'choices': [choice]})}\n\n"


class Work:
    """One generation: tokens come from the compute thread, pieces of text go to the client."""

    def __init__(
        self, here: Context, state: View, body: _Common, tokens: list[int], top: int | None
    ) -> None:
        self.here, self.state, self.body, self.tokens, self.top = here, state, body, tokens, top
        self.kept: list[Token] = []
        self.text = ""
        self.reason = "length"
        self.wanted = True
        self.id = f"cmpl-{new_id()}"

    def decode(self, ids: list[int]) -> str:
        """Return the text of tokens."""
        return str(self.state.substrate.tokenizer.decode(ids))

    async def scored(self) -> list[Token]:
        """Score the prompt, which is echoed."""
        self.text = self.decode(self.tokens)
        job = score(self.state, self.tokens, self.top or 0)
        kept: list[Token] = await asyncio.wrap_future(self.here.engine.run(job))
        return kept

    async def pieces(self) -> AsyncIterator[tuple[str, Token | None]]:
        """Generate; yields text as soon as it is whole characters and no part of a stop."""
        loop, arrived = asyncio.get_running_loop(), asyncio.Queue[Token | None]()

        def emit(token: Token) -> bool:
            loop.call_soon_threadsafe(arrived.put_nowait, token)
            return self.wanted

        most = 16 if self.body.max_tokens is None else self.body.max_tokens
        seed = self.body.seed if self.body.seed is not None else time.time_ns()
        how = Sampling(most, self.body.temperature, self.body.top_p, seed, self.top or 0)
        done = self.here.engine.run(generate(self.state, self.tokens, how, emit))
        done.add_done_callback(lambda _: loop.call_soon_threadsafe(arrived.put_nowait, None))
        ids: list[int] = []
        begun, sent = self.text, 0
        try:
            while (token := await arrived.get()) is not None:
                if not self.wanted:
                    continue
                ids.append(token.id)
                self.kept.append(token)
                text = self.decode(ids)
                ends = [text.find(stop) for stop in self.body.stops() if stop in text]
                if ends:
                    text, self.wanted, self.reason = text[: min(ends)], False, "stop"
                elif text.endswith("\ufffd"):
                    continue  # in the middle of a character
                self.text = begun + text
                yield text[sent:], token
                sent = len(text)
            if self.wanted:
                self.reason = done.result()
        finally:
            self.wanted = False

    async def events(self, kind: str) -> AsyncIterator[str]:
        """Send pieces as server-sent events."""
        frame = _frame(self.state, self.id, kind, self.body.model, self.state.version)
        chat = kind == "chat.completion.chunk"
        if self.text:
            yield _line(frame, self.text, None, chat=chat)
        async for piece, token in self.pieces():
            shown = None if self.top is None or token is None else self.logprobs([token], chat)
            yield _line(frame, piece, None, chat=chat, logprobs=shown)
        yield _line(frame, "", self.reason, chat=chat)
        yield _END

    def logprobs(self, tokens: list[Token], chat: bool) -> dict[str, Any]:
        """Return log-probabilities in the form of either interface."""
        words = [self.decode([one.id]) for one in tokens]
        if chat:
            return {
                "content": [
                    {
                        "token": word,
                        "logprob": one.logprob,
                        "bytes": list(word.encode()),
                        "top_logprobs": [
                            {"token": self.decode([n]), "logprob": log, "bytes": None}
                            for n, log in one.top
                        ],
                    }
                    for word, one in zip(words, tokens, strict=True)
                ]
            }
        starts = [sum(map(len, words[:number])) for number in range(len(words))]
        return {
            "tokens": words,
            "token_logprobs": [one.logprob for one in tokens],
            "top_logprobs": [{self.decode([n]): log for n, log in one.top} for one in tokens],
            "text_offset": starts,
        }

    def completion(self) -> dict[str, Any]:
        """Return the whole of a completion."""
        logs = None if self.top is None else self.logprobs(self.kept, chat=False)
        choice = {"index": 0, "text": self.text, "finish_reason": self.reason, "logprobs": logs}
        return self._whole("text_completion", choice)

    def chat(self) -> dict[str, Any]:
        """Return the whole of a chat's answer."""
        logs = None if self.top is None else self.logprobs(self.kept, chat=True)
        message = {"role": "assistant", "content": self.text}
        choice = {
            "index": 0,
            "message": message,
            "finish_reason": self.reason,
            "logprobs": logs,
        }
        return self._whole("chat.completion", choice)

    def _whole(self, kind: str, choice: dict[str, Any]) -> dict[str, Any]:
        echoed = len(self.tokens) if getattr(self.body, "echo", False) else 0
        generated = len(self.kept) - echoed
        usage = {
            "prompt_tokens": len(self.tokens),
            "completion_tokens": generated,
            "total_tokens": len(self.tokens) + generated,
        }
        frame = _frame(self.state, self.id, kind, self.body.model, self.state.version)
        return {**frame, "choices": [choice], "usage": usage}
