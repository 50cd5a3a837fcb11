"""What stands between the network and Gradio: host check, body limit, closed side doors."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from typing import Any
from urllib.parse import parse_qs

from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware

from engine.settings import SETTINGS
from engine.strategies import STRATEGIES
from playground.listening import LISTENERS
from playground.uploads import UPLOADS

_CLOSED = (
    "/gradio_api/deep_link",
    "/deep_link",
    "/monitoring",
    "/gradio_api/runs",
    "/gradio_api/dev",
    "/gradio_api/run/",
    "/run/",
    "/openapi.json",
    "/docs",
)
_UPLOADS = "/gradio_api/upload"
_CALLS = {f"/gradio_api/call/{name}" for name in STRATEGIES}
_CALL, _LISTEN = "/gradio_api/call/", "/gradio_api/queue/data"
_ENDPOINTS = (_CALL, _LISTEN, "/gradio_api/queue/join")
_FIELDS = 4
_WANTED = b"data must be a list of prompt, model, params and seed."
_MAX_SESSION_CHARS = 64
_HUB_PAGES = "https://huggingface.co https://*.huggingface.co https://*.hf.space"
"""What may show a Space in a frame: the pages of the hub."""


def policy() -> str:
    """Return the content security policy of the page: nothing from elsewhere, and who may frame it.

    Gradio's own page has scripts in its HTML and makes functions of texts, so scripts cannot be narrowed
    further; escaping is what keeps a visitor's text from being one.
    """
    frames = f"'self' {_HUB_PAGES}" if SETTINGS.public else "'self'"
    return "; ".join(
        (
            "default-src 'self'",
            "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            # A picture of the page is made from texts that stand in addresses.
            "connect-src 'self' data: blob:",
            "worker-src 'self' blob:",
            "object-src 'none'",
            "base-uri 'self'",
            "form-action 'self'",
            f"frame-ancestors {frames} {os.environ.get('PLAYGROUND_FRAMES', '')}".strip(),
        )
    )


class Headers:
    """ASGI middleware: what every answer says to the browser about what it may do with it."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.always = [
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"same-origin"),
            (b"content-security-policy", policy().encode()),
        ]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *self.always]}
            await send(message)

        return await self.app(scope, receive, with_headers)


class Gate:
    """ASGI middleware: refuses large bodies with 413, odd sessions with 400, closed paths with 404."""

    def __init__(self, app: Any, max_bytes: int) -> None:
        self.app, self.max_bytes = app, max_bytes

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        path = scope["path"]
        if path.startswith(_CLOSED):
            return await _answer(send, 404, b"Not found")
        if scope["method"] == "POST" and _is_foreign(scope):
            return await _answer(send, 403, b"This page may not ask here.")
        if path.startswith(_UPLOADS):  # bounded by gradio's own max_file_size
            UPLOADS.make_room(_length(scope))
            # Gradio fails where a file has no name.
            return await _patiently(self.app, scope, receive, send, 400, b"The upload is broken.")
        body = await _read(receive, self.max_bytes) if scope["method"] == "POST" else b""
        if body is None:
            return await _answer(send, 413, b"The request is too large.")
        if path.endswith("/queue/join") and _session_length(body) > _MAX_SESSION_CHARS:
            return await _answer(send, 400, b"The session is not valid.")
        replies = receive if scope["method"] != "POST" else _replay(body, receive)
        if not path.startswith(_ENDPOINTS):
            return await self.app(scope, replies, send)
        if path in _CALLS and scope["method"] == "POST" and not _has_fields(body):
            return await _answer(send, 422, _WANTED)
        # Gradio fails before it answers, or in mid-stream, when an endpoint or an event does not exist.
        gone = b"There is no such endpoint."
        listener = _listener(scope) if scope["method"] == "GET" else ""
        with LISTENERS.listening(listener) if listener else nullcontext():
            return await _patiently(self.app, scope, replies, send, 404, gone)


def _listener(scope: Any) -> str:
    """Return the session whose answers a request will listen to, empty for none."""
    if scope["path"].startswith(_LISTEN):
        asked = parse_qs(scope["query_string"].decode("latin1"))
        return asked.get("session_hash", [""])[0][:_MAX_SESSION_CHARS]
    # An answer to a program has the number of what it asked for as its session.
    return scope["path"].rpartition("/")[2] if scope["path"].startswith(_CALL) else ""


def _length(scope: Any) -> int:
    """Return how many bytes a request says that it brings, the most it may where it does not say."""
    said = dict(scope["headers"]).get(b"content-length", b"")
    return int(said) if said.isdigit() else SETTINGS.max_trace_bytes


def _is_foreign(scope: Any) -> bool:
    """Return whether a browser says that a page of another origin asks; programs name no origin."""
    headers = dict(scope["headers"])
    origin = headers.get(b"origin", b"")
    return bool(origin) and origin.partition(b"://")[2] != headers.get(b"host", b"")


async def _patiently(
    app: Any, scope: Any, receive: Any, send: Any, status: int, otherwise: bytes
) -> None:
    """Let the app answer; where it fails instead, answer for it."""
    patient = _Patient(send)
    try:
        await app(scope, receive, patient)
    except Exception:
        await patient.give_up(status, otherwise)


class _Patient:
    """Holds a response's start back until its first bytes: a stream may fail before it has any."""

    def __init__(self, send: Any) -> None:
        self.send, self.held, self.started = send, None, False

    async def __call__(self, message: Any) -> None:
        """Pass a message on, its response's start just before the first body."""
        if message["type"] == "http.response.start":
            self.held = message
            return
        if self.held is not None:
            await self.send(self.held)
            self.held, self.started = None, True
        await self.send(message)

    async def give_up(self, status: int, otherwise: bytes) -> None:
        """End what was begun, else answer with a status and a sentence."""
        if self.started:
            await self.send({"type": "http.response.body", "body": b"", "more_body": False})
        else:
            await _answer(self.send, status, otherwise)


async def _read(receive: Any, limit: int) -> bytes | None:
    """Return the whole body, None as soon as it passes the limit."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > limit:
            return None
        if not message.get("more_body", False):
            return body


def _replay(body: bytes, receive: Any) -> Any:
    """Return a receive function that hands over the body, then what follows it."""
    first = [{"type": "http.request", "body": body, "more_body": False}]

    async def replies() -> Any:
        return first.pop() if first else await receive()

    return replies


def _session_length(body: bytes) -> int:
    try:
        return len(str(json.loads(body).get("session_hash", "")))
    except (ValueError, AttributeError, RecursionError):
        return 0  # Gradio refuses a body that is no JSON object


def _has_fields(body: bytes) -> bool:
    """Return whether a call has as many values as an endpoint takes; Gradio answers null if not."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return True  # Gradio says that this is no JSON
    values = data.get("data") if isinstance(data, dict) else None
    return not isinstance(data, dict) or (isinstance(values, list) and len(values) == _FIELDS)


async def _answer(send: Any, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def middleware() -> list[Middleware]:
    """Return the middleware of the app; a Space is reached under the platform's own host names."""
    gates = [Middleware(Headers), Middleware(Gate, max_bytes=SETTINGS.max_request_bytes)]
    if not SETTINGS.public:
        hosts = ["127.0.0.1", "localhost", "::1", *os.environ.get("PLAYGROUND_HOSTS", "").split()]
        gates.insert(0, Middleware(TrustedHostMiddleware, allowed_hosts=hosts))
    return gates
