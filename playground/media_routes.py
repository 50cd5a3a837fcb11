"""How a picture or a sound comes to the server: one request with the file's bytes, which never touch a disk."""

from __future__ import annotations

import asyncio
from pathlib import Path

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from engine.errors import BusyError, EngineError, ParameterError
from engine.media import examples, example_file
from engine.settings import SETTINGS
from engine.trace.json_io import to_dict
from playground import media, scripts
from playground.guard import sentence
from playground.visitors import address_of

PLACE = "/media/"
VISITOR_HEADER = "x-visitor"
"""With it a page says who reads it; a form of another site cannot send it."""
LIMITS = {"image": SETTINGS.max_image_bytes, "audio": SETTINGS.max_audio_bytes}
_TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".wav": "audio/wav", ".flac": "audio/flac"}


class _Incoming:
    """Bytes that are on their way: many who send at once may not fill the memory."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes, self.bytes = most_bytes, 0

    async def read(self, request: Request, kind: str) -> bytes:
        """Return the body of a request.

        Raises:
            ParameterError: it is too large.
            BusyError: too much is being sent at once.
        """
        parts, length = [], 0
        try:
            async for part in request.stream():
                length += len(part)
                self.bytes += len(part)
                if length > LIMITS[kind]:
                    raise too_large(kind, length)
                if self.bytes > self.most_bytes:
                    raise BusyError("Too much is being sent here at once; try again in a moment.")
                parts.append(part)
            return b"".join(parts)
        finally:
            self.bytes -= length


INCOMING = _Incoming(SETTINGS.max_held_media_bytes // 4)


def too_large(kind: str, length: int) -> ParameterError:
    """Return the refusal of a file that has more bytes than are read here."""
    most = LIMITS[kind]
    given = f"{length} bytes" if length <= most * 2 else "a larger file"
    return ParameterError(kind, given, f"a file may have up to {most} bytes")


def routes() -> list[Route]:
    """Return the routes: where files are sent, and where the examples that come along are fetched."""
    return [
        Route(f"{PLACE}{{kind}}", _take, methods=["POST"]),
        Route(f"{PLACE}example/{{name}}", _example),
    ]


async def _take(request: Request) -> Response:
    kind, visitor = request.path_params["kind"], request.headers.get(VISITOR_HEADER, "")
    if kind not in media.KINDS:
        return PlainTextResponse("Not found", 404)
    if not media.is_visitor(visitor):
        return _said({"error": "The page did not say who sends this; load it anew."}, 400)
    host = request.client.host if request.client else ""
    address = address_of(host, request.headers.get("x-forwarded-for", ""), SETTINGS.public)
    try:
        said = request.headers.get("content-length", "")
        if said.isdigit() and int(said) > LIMITS[kind]:
            raise too_large(kind, int(said))
        data = await INCOMING.read(request, kind)
        info = await asyncio.to_thread(media.take, visitor, kind, data, address)
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
    return _said({**to_dict(info), "bytes": len(data), "given": media.name_of(info)}, 201)


def _said(values: dict[str, object], status: int) -> JSONResponse:
    return JSONResponse(values, status, {"Cache-Control": "no-store"})


async def _example(request: Request) -> Response:
    known = [name for kind in media.KINDS for name in examples(kind)]
    name = request.path_params["name"]
    if name not in known:
        return PlainTextResponse("Not found", 404)
    path: Path = example_file(name)
    kind = _TYPES.get(path.suffix, "application/octet-stream")
    return scripts.kept(await asyncio.to_thread(path.read_bytes), kind)
