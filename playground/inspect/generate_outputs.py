"""Download of transformers' generate() outputs for a run: the size of the file, and the file.

The request contains the run, so nobody gets outputs of a run they do not have. The file is built in
memory and not stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import uuid
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from engine.analysis.generate_outputs import rerun_generate
from engine.analysis.generate_outputs_files import output_metadata, output_to_bytes
from engine.analysis.generate_outputs_flags import check_has_outputs, parse_flags
from engine.analysis.generate_outputs_sizes import check_size
from engine.errors import BusyError, EngineError
from engine.messages import add_templates
from engine.one_shot_thread import run_in_thread
from engine.run.visitor import VISITOR, Visitor
from engine.settings import SETTINGS
from engine.trace.checks import read_json_strict
from playground.forms import visitor_media
from playground.inspect.trace_input import parse_trace
from playground.jobs.registry import JOBS, QUESTION_WAIT_S, JobKind
from playground.shell.guard import error_message
from playground.shell.visitors import VISITOR_HEADER, request_address

ACTIONS = ("rich_size",)
RICH_PATH = "/rich"
_REQUEST_FIELDS = ("trace", "flags")
# One file at a time: each is in memory as a whole, and so are its outputs.
_KIND = JobKind(
    "rich",
    slots=1,
    wait_s=QUESTION_WAIT_S,
    busy="Somebody else fetches outputs of a run; try again in a moment.",
)
_BUSY, _REFUSED, _FAILED = 503, 400, 500


def act(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``size`` in bytes of the file with a run's outputs, without computing them.

    Args:
        payload: ``trace``, a run as JSON values whose steps may be left out, and ``flags``, see
            ``parse_flags``.

    Raises:
        EngineError: The run has no such outputs, or they would be too large.
    """
    trace, flags = parse_trace(payload.get("trace")), parse_flags(payload.get("flags"))
    check_has_outputs(trace)
    return {"size": check_size(trace, flags)}


def routes() -> list[Route]:
    """Return the download route, for the page and for programs."""
    return [Route(RICH_PATH, serve_rich_output, methods=["POST"])]


async def serve_rich_output(request: Request) -> Response:
    """Answer a JSON object of ``trace`` and ``flags`` with the file, or with a JSON ``error``.

    The computation is cancelled when the client disconnects.
    """
    address = request_address(request)
    body, job_id = await request.body(), uuid.uuid4().hex
    reader = request.headers.get(VISITOR_HEADER, "")
    watching = asyncio.create_task(_stop_on_disconnect(request, job_id))
    try:
        data = await asyncio.to_thread(_make_file, body, job_id, Visitor(address, ""), reader)
    except BusyError as error:
        return _error_response(str(error), _BUSY)
    except EngineError as error:
        return _error_response(str(error), _REFUSED)
    except Exception as error:
        return _error_response(error_message(error), _FAILED)
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
    return Response(
        data, media_type="application/octet-stream", headers={"Cache-Control": "no-store"}
    )


async def _stop_on_disconnect(request: Request, job_id: str) -> None:
    """Stop the job when the client disconnects."""
    while (await request.receive())["type"] != "http.disconnect":
        continue
    JOBS.stop(job_id)


def _make_file(body: bytes, job_id: str, visitor: Visitor, reader: str = "") -> bytes:
    payload = read_json_strict(body, SETTINGS.max_request_bytes)
    if not isinstance(payload, dict):
        raise EngineError(
            "The request has to be an object with {names}.", names=", ".join(_REQUEST_FIELDS)
        )
    own = visitor_media.hide_foreign_media({**payload, visitor_media.VISITOR_FIELD: reader})
    trace, flags = parse_trace(own.get("trace")), parse_flags(payload.get("flags"))
    VISITOR.set(visitor)

    def work(cancelled: threading.Event) -> bytes:
        output = rerun_generate(trace, **asdict(flags), cancelled=cancelled)
        return output_to_bytes(output, output_metadata(trace, flags))

    with JOBS.run(_KIND, job_id) as job:
        return run_in_thread(lambda: work(job.cancelled))


def _error_response(error: str, status: int) -> JSONResponse:
    return JSONResponse(add_templates({"error": error}), status, {"Cache-Control": "no-store"})
