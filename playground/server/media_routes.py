"""Routes for pictures and sounds: one upload request per file, which is never written to disk."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from engine.errors import BusyError, EngineError, ParameterError
from engine.media import list_examples
from engine.messages import Message, add_templates
from engine.trace.json_io import to_dict
from playground.forms import visitor_media
from playground.server.body_budget import BODY_BUDGET, BodyTooLargeError
from playground.shell import scripts
from playground.shell.guard import error_message
from playground.shell.visitors import VISITOR_HEADER, request_address

MEDIA_PATH = "/media/"
_TYPES = {".png": "image/png", ".wav": "audio/wav", ".flac": "audio/flac"}


def routes() -> list[Route]:
    """Return the routes that receive files, check whether one is stored, and serve the examples."""
    return [
        Route(f"{MEDIA_PATH}example/{{name}}", _serve_example),
        Route(f"{MEDIA_PATH}{{kind}}", _receive_upload, methods=["POST"]),
        Route(f"{MEDIA_PATH}{{kind}}/{{sha256}}", _serve_is_stored),
    ]


async def _receive_upload(request: Request) -> Response:
    kind, visitor = request.path_params["kind"], request.headers.get(VISITOR_HEADER, "")
    if kind not in visitor_media.KINDS:
        return PlainTextResponse("Not found", 404)
    if not visitor_media.is_visitor_id(visitor):
        return _json_response(
            {"error": "The page did not say who sent this. Reload the page."}, 400
        )
    try:
        data = await BODY_BUDGET.read(request.stream(), visitor_media.LIMITS[kind])
        info = await asyncio.to_thread(
            visitor_media.store_upload, visitor, kind, data, request_address(request)
        )
    except BodyTooLargeError:
        return _json_response({"error": str(_size_error(kind))}, 413)
    except TimeoutError:
        return _json_response({"error": "The file took too long to come; try again."}, 408)
    except BusyError as error:
        return _json_response({"error": str(error)}, 503)
    except EngineError as error:
        return _json_response({"error": str(error)}, 400)
    except ClientDisconnect:
        return Response(status_code=400)
    except Exception as error:
        return _json_response({"error": error_message(error)}, 500)
    return _json_response(
        {**to_dict(info), "bytes": len(data), "given": visitor_media.to_form_name(info)}, 201
    )


def _size_error(kind: str) -> ParameterError:
    return ParameterError(
        kind,
        "a larger file",
        Message("at most {n} MB", n=f"{visitor_media.LIMITS[kind] / 1e6:g}"),
    )


async def _serve_is_stored(request: Request) -> Response:
    kind, sha256 = request.path_params["kind"], request.path_params["sha256"]
    visitor = request.headers.get(VISITOR_HEADER, "")
    return _json_response(
        {"here": visitor_media.MEDIA.find(visitor, kind, sha256) is not None}, 200
    )


def _json_response(values: dict[str, object], status: int) -> JSONResponse:
    return JSONResponse(add_templates(values), status, {"Cache-Control": "no-store"})


async def _serve_example(request: Request) -> Response:
    known = {one.name: one.file for one in list_examples()}
    file = known.get(request.path_params["name"])
    if file is None:
        return PlainTextResponse("Not found", 404)
    return scripts.immutable_response(await asyncio.to_thread(file.read_bytes), _TYPES[file.suffix])
