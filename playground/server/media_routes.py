"""Routes for pictures and sounds: one upload request per file, which is never written to disk."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from engine.errors import BusyError, EngineError, ParameterError
from engine.media import list_examples
from engine.trace.json_io import to_dict
from playground.forms import visitor_media
from playground.server.body_budget import INCOMING, BodyTooLargeError
from playground.shell import scripts
from playground.shell.guard import sentence
from playground.shell.visitors import asking_from

PLACE = "/media/"
VISITOR_HEADER = "x-visitor"
"""Request header with the visitor's id. A form on another site cannot send a custom header."""
_TYPES = {".png": "image/png", ".wav": "audio/wav", ".flac": "audio/flac"}


def routes() -> list[Route]:
    """Return the routes that receive files, check whether one is stored, and serve the examples."""
    return [
        Route(f"{PLACE}example/{{name}}", _example),
        Route(f"{PLACE}{{kind}}", _take, methods=["POST"]),
        Route(f"{PLACE}{{kind}}/{{sha256}}", _is_here),
    ]


async def _take(request: Request) -> Response:
    kind, visitor = request.path_params["kind"], request.headers.get(VISITOR_HEADER, "")
    if kind not in visitor_media.KINDS:
        return PlainTextResponse("Not found", 404)
    if not visitor_media.is_visitor(visitor):
        return _said({"error": "The page did not say who sends this; load it anew."}, 400)
    try:
        data = await INCOMING.read(request.stream(), visitor_media.LIMITS[kind])
        info = await asyncio.to_thread(
            visitor_media.take, visitor, kind, data, asking_from(request)
        )
    except BodyTooLargeError:
        return _said({"error": str(_too_large(kind))}, 413)
    except TimeoutError:
        return _said({"error": "The file took too long to come; try again."}, 408)
    except BusyError as error:
        return _said({"error": str(error)}, 503)
    except EngineError as error:
        return _said({"error": str(error)}, 400)
    except ClientDisconnect:
        return Response(status_code=400)
    except Exception as error:
        return _said({"error": sentence(error)}, 500)
    return _said({**to_dict(info), "bytes": len(data), "given": visitor_media.name_of(info)}, 201)


def _too_large(kind: str) -> ParameterError:
    return ParameterError(kind, "a larger file", f"at most {visitor_media.LIMITS[kind] / 1e6:g} MB")


async def _is_here(request: Request) -> Response:
    kind, sha256 = request.path_params["kind"], request.path_params["sha256"]
    visitor = request.headers.get(VISITOR_HEADER, "")
    return _said({"here": visitor_media.MEDIA.find(visitor, kind, sha256) is not None}, 200)


def _said(values: dict[str, object], status: int) -> JSONResponse:
    return JSONResponse(values, status, {"Cache-Control": "no-store"})


async def _example(request: Request) -> Response:
    known = {one.name: one.file for one in list_examples()}
    file = known.get(request.path_params["name"])
    if file is None:
        return PlainTextResponse("Not found", 404)
    return scripts.kept(await asyncio.to_thread(file.read_bytes), _TYPES[file.suffix])
