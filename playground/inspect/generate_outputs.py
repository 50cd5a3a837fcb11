"""Download of transformers' generate() outputs for a run: the size of the file, and the file.

The request contains the run, so nobody gets outputs of a run they do not have. The file is built in
memory and not stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Mapping
from contextvars import copy_context
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from engine.analysis.generate_outputs import rich_output
from engine.analysis.generate_outputs_files import rich_bytes, rich_metadata
from engine.analysis.generate_outputs_flags import check_can_be_made, flags_of
from engine.analysis.generate_outputs_sizes import check_size
from engine.errors import BusyError, Cancelled, EngineError, StoppedError
from engine.one_shot_thread import aside
from engine.run.visitor import VISITOR, Visitor
from engine.settings import SETTINGS
from engine.trace.checks import read_json_strict
from playground.forms import visitor_media
from playground.inspect.trace_input import trace_of
from playground.server.media_routes import VISITOR_HEADER
from playground.shell.guard import sentence
from playground.shell.visitors import address_of

ACTIONS = ("rich_size",)
PLACE = "/rich"
_ASKED = ("trace", "flags")
_AT_WORK = threading.Semaphore(1)
"""One file at a time: each is in memory as a whole, and so are its outputs."""
_WAIT_S = 20.0
_POLL_S = 0.05
_BUSY, _REFUSED, _FAILED = 503, 400, 500


def act(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``size`` in bytes of the file with a run's outputs, without computing them.

    Args:
        asked: ``trace``, a run as JSON values whose steps may be left out, and ``flags``, see
            ``flags_of``.

    Raises:
        EngineError: The run has no such outputs, or they would be too large.
    """
    trace, flags = trace_of(asked.get("trace")), flags_of(asked.get("flags"))
    check_can_be_made(trace)
    return {"size": check_size(trace, flags)}


def routes() -> list[Route]:
    """Return the download route, for the page and for programs."""
    return [Route(PLACE, made, methods=["POST"])]


async def made(request: Request) -> Response:
    """Answer a JSON object of ``trace`` and ``flags`` with the file, or with a JSON ``error``.

    The computation is cancelled when the client disconnects.
    """
    host = request.client.host if request.client else ""
    address = address_of(host, request.headers.get("x-forwarded-for", ""), SETTINGS.public)
    body, cancelled = await request.body(), threading.Event()
    reader = request.headers.get(VISITOR_HEADER, "")
    watching = asyncio.create_task(_watch(request, cancelled))
    try:
        data = await asyncio.to_thread(_made, body, cancelled, Visitor(address, ""), reader)
    except BusyError as error:
        return _said(str(error), _BUSY)
    except EngineError as error:
        return _said(str(error), _REFUSED)
    except Cancelled:
        return _said(str(StoppedError("Stopped.")), _REFUSED)
    except Exception as error:
        return _said(sentence(error), _FAILED)
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
    return Response(
        data, media_type="application/octet-stream", headers={"Cache-Control": "no-store"}
    )


async def _watch(request: Request, cancelled: threading.Event) -> None:
    """Set ``cancelled`` when the client disconnects."""
    while (await request.receive())["type"] != "http.disconnect":
        continue
    cancelled.set()


def _made(body: bytes, cancelled: threading.Event, visitor: Visitor, reader: str = "") -> bytes:
    asked = read_json_strict(body, SETTINGS.max_request_bytes)
    if not isinstance(asked, dict):
        raise EngineError(f"The request has to be an object with {', '.join(_ASKED)}.")
    own = visitor_media.only_own({**asked, visitor_media.VISITOR: reader})
    trace, flags = trace_of(own.get("trace")), flags_of(asked.get("flags"))
    VISITOR.set(visitor)
    # ``aside`` computes in another thread, which does not inherit context variables.
    context = copy_context()

    def work() -> bytes:
        output = rich_output(trace, **asdict(flags), cancelled=cancelled)
        return rich_bytes(output, rich_metadata(trace, flags))

    _wait_for_turn(cancelled)
    try:
        return aside(lambda: context.run(work))
    finally:
        _AT_WORK.release()


def _wait_for_turn(cancelled: threading.Event) -> None:
    until = time.monotonic() + _WAIT_S
    while not _AT_WORK.acquire(timeout=_POLL_S):
        if cancelled.is_set():
            raise Cancelled
        if time.monotonic() > until:
            raise BusyError("Somebody else fetches outputs of a run; try again in a moment.")


def _said(error: str, status: int) -> JSONResponse:
    return JSONResponse({"error": error}, status, {"Cache-Control": "no-store"})
