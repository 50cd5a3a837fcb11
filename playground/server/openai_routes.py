"""Routes for programs that speak OpenAI's API: models, completions and chat completions."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterator
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from engine.errors import ParameterError
from engine.settings import SETTINGS
from engine.trace.checks import read_json_strict
from playground.forms.spec import page_spec
from playground.server.openai_request import OpenAIRequest, parse_request
from playground.server.openai_response import OPENAI_PATH, Envelope, error_response
from playground.server.openai_stream import DisconnectedError, decode_all, stream_answer

_STARTED = int(time.time())
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""The second one keeps a proxy from holding a stream back."""


def routes() -> list[Route]:
    """Return the routes below ``/v1``."""
    return [
        Route(f"{OPENAI_PATH}models", _list_models),
        Route(f"{OPENAI_PATH}models/{{name:path}}", _show_model),
        Route(f"{OPENAI_PATH}completions", _answer_completion, methods=["POST"]),
        Route(f"{OPENAI_PATH}chat/completions", _answer_chat, methods=["POST"]),
    ]


def model_names() -> Iterator[str]:
    """Yield the names of the models on offer; one on this machine also with each of its strategies."""
    spec = page_spec()
    for model in spec["models"]:
        name = model["name"]
        yield name
        for strategy in spec["strategies"] if model["ready"] else ():
            if name not in strategy["refused"]:
                yield f"{name}:{strategy['name']}"


def _describe_model(name: str) -> dict[str, Any]:
    owner = name.partition("/")[0] if "/" in name else "decoding-playground"
    return {"id": name, "object": "model", "created": _STARTED, "owned_by": owner}


async def _list_models(request: Request) -> Response:
    del request
    names = await run_in_threadpool(lambda: list(model_names()))
    return JSONResponse({"object": "list", "data": [_describe_model(name) for name in names]})


async def _show_model(request: Request) -> Response:
    name = request.path_params["name"]
    if name in await run_in_threadpool(lambda: set(model_names())):
        return JSONResponse(_describe_model(name))
    return error_response(ParameterError("model", name, "it must be a name that /v1/models lists"))


async def _answer_completion(request: Request) -> Response:
    return await _answer(request, is_chat=False)


async def _answer_chat(request: Request) -> Response:
    return await _answer(request, is_chat=True)


async def _answer(request: Request, *, is_chat: bool) -> Response:
    try:
        body = read_json_strict(await request.body(), SETTINGS.max_request_bytes)
        # In a thread, as a picture may have to be decoded.
        openai_request = await run_in_threadpool(lambda: parse_request(body, is_chat=is_chat))
        if openai_request.stream:
            return await _start_stream(openai_request, request)
        return JSONResponse(
            Envelope(openai_request).whole(await decode_all(openai_request, request))
        )
    except (ClientDisconnect, DisconnectedError):
        return Response(status_code=400)
    except Exception as error:
        return error_response(error)


async def _start_stream(openai_request: OpenAIRequest, request: Request) -> Response:
    """Return a stream whose first event is known, so that a wrong request gets an error response."""
    events = stream_answer(openai_request, request)
    first = await anext(events, None)
    if first is None:
        raise DisconnectedError
    return _EventStream(first, events)


class _EventStream(StreamingResponse):
    """A stream of server-sent events whose generator ends with the connection."""

    def __init__(self, first: bytes, rest: AsyncGenerator[bytes, None]) -> None:
        self.rest = rest
        super().__init__(_join(first, rest), media_type="text/event-stream", headers=_HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream until either side closes it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self.rest.aclose()


async def _join(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    yield first
    async for event in rest:
        yield event
