"""A bare FastAPI route with the same body and as long an answer: what the framework itself costs.

Also ``larc serve`` with a model that costs nothing: ``python -m benchmarks.serving.bare free ...``.
"""

from __future__ import annotations

import sys
from typing import Any

import uvicorn
from fastapi import FastAPI
from fastapi.responses import JSONResponse

from larc.service.protocol import QuestionBody
from larc.service.server import listening


def app() -> FastAPI:
    """Return an application with one route, which checks the body and answers something."""
    bare = FastAPI()
    answer: dict[str, Any] = {
        "seq": 1,
        "probabilities": [0.25] * 4,
        "state_version": 0,
        "weights": dict.fromkeys(("keep", "reset", "PRIOR", "LAST", "HASHED"), 0.2),
        "said": dict.fromkeys(("keep", "reset", "PRIOR", "LAST", "HASHED"), [0.25] * 4),
        "mixture": [0.25] * 4,
        "mode": "learn",
        "scored": True,
    }

    @bare.post("/v1/streams/{stream}/questions", status_code=201)
    async def ask(stream: str, body: QuestionBody) -> JSONResponse:
        return JSONResponse({"id": body.id, **answer}, 201)

    return bare


def serve_bare() -> None:
    """Serve the bare route on any free port."""
    listener = listening("127.0.0.1", 0)
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    config = uvicorn.Config(app(), log_config=None, access_log=False, lifespan="off")
    uvicorn.Server(config).run(sockets=[listener])


def serve_free(arguments: list[str]) -> int:
    """Run ``larc`` with a model that costs nothing: every answer is uniform, no step goes far."""
    import torch

    from larc.cli import main
    from larc.learner import Learner
    from larc.updates import Update

    def read_many(self: Learner, requests: Any, **_: Any) -> list[Any]:
        return [torch.full((len(one[2]),), 1 / len(one[2])) for one in requests]

    def update_many(self: Learner, updates: Any, **_: Any) -> list[Any]:
        for episode, _given in updates:
            episode.step += 1
        return [Update(0.0, 0.0) for _ in updates]

    Learner.read_many = read_many  # type: ignore[method-assign]  # costs nothing
    Learner.update_many = update_many  # type: ignore[method-assign]  # likewise
    return main(arguments)


if __name__ == "__main__":
    if sys.argv[1] == "free":
        sys.exit(serve_free(sys.argv[2:]))
    serve_bare()
