"""ASGI middleware before Gradio: host check, body limits, security headers, closed paths."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import parse_qs

from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware

from engine.errors import BusyError
from engine.messages import to_json
from engine.settings import SETTINGS
from playground.server.body_budget import BODY_BUDGET, BodyTooLargeError
from playground.server.media_routes import MEDIA_PATH as MEDIA
from playground.server.openai_response import OPENAI_PATH, refusal_object
from playground.server.proxies import ForwardedHeaders, forwarded_headers_arguments
from playground.server.request_schema import (
    CALL_PATH,
    JOIN_PATH,
    MAX_SESSION_CHARS,
    TOO_LARGE,
    Refusal,
    check_request,
)
from playground.server.session_streams import ListenerRefusedError, SessionStreams
from playground.shell.listeners import LISTENERS
from playground.storage.uploads import UPLOADS

_CLOSED_PATHS = (
    "/call/v2/",
    "/openapi.json",
    *(
        place + name
        for place in ("/gradio_api", "")
        for name in (
            "/api/",
            "/component_server",
            "/deep_link",
            "/dev",
            "/docs",
            "/monitoring",
            "/process_recording",
            "/profiling",
            "/proxy=",
            "/redoc",
            "/run/",
            "/run-history",
            "/runs",
            "/stream/",
            "/undo-vibe",
            "/vibe",
        )
    ),
)
"""Gradio's endpoints that neither the page nor programs use.

An allow-list would break with each Gradio version.
"""
_UPLOAD_PATH = "/gradio_api/upload"
_LISTEN_PATH = "/gradio_api/queue/data"
_ENDPOINT_PATHS = (CALL_PATH, _LISTEN_PATH, JOIN_PATH)
_SMALL_BODY_BYTES = 50_000
"""A body of this size is checked in a millisecond, less than a thread takes to begin."""
PERMISSIONS_POLICY = "camera=(self), microphone=(self), geolocation=(), display-capture=()"
"""Permissions policy: only this page may use camera and microphone, for a model's input."""
_HUB_PAGES = "https://huggingface.co https://*.huggingface.co https://*.hf.space"
"""Origins that may frame a Space: the pages of the hub."""


def content_security_policy() -> str:
    """Return the page's content security policy: own resources only, and who may frame it.

    Gradio's page needs inline scripts and eval, so the policy cannot forbid them. Escaping prevents
    a visitor's text from running as a script.
    """
    frames = ["'self'", _HUB_PAGES] if SETTINGS.public else ["'self'"]
    frames.append(os.environ.get("PLAYGROUND_FRAMES", ""))
    return "; ".join(
        (
            "default-src 'self'",
            "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            # A fresh recording is played from a blob before it is sent.
            "media-src 'self' blob:",
            # The image export reads data and blob URLs.
            "connect-src 'self' data: blob:",
            "worker-src 'self' blob:",
            "object-src 'none'",
            "base-uri 'self'",
            "form-action 'self'",
            " ".join(["frame-ancestors", *filter(None, frames)]),
        )
    )


class SecurityHeaders:
    """ASGI middleware that adds the security headers to every response."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.always = [
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"same-origin"),
            (b"content-security-policy", content_security_policy().encode()),
            (b"permissions-policy", PERMISSIONS_POLICY.encode()),
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


class RequestGate:
    """ASGI middleware that refuses large (413), slow (408) and malformed bodies, and closed paths.

    Args:
        app: The next ASGI app.
        max_bytes: Limit for a body that is not an upload.
        inputs: Event id -> number of values that the event takes.
    """

    def __init__(self, app: Any, max_bytes: int, inputs: Mapping[int, int]) -> None:
        self.app, self.max_bytes, self.inputs = app, max_bytes, inputs
        self.streams = SessionStreams()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        path = scope["path"]
        if path.startswith(_CLOSED_PATHS):
            return await _send_response(send, 404, b"Not found")
        # Another site's page could otherwise start runs here with a simple form.
        if scope["method"] == "POST" and _is_cross_origin(scope):
            return await _send_response(send, 403, b"This page may not ask here.")
        post = scope["method"] == "POST"
        if path.startswith(_UPLOAD_PATH):  # Gradio bounds the size itself (max_file_size)
            UPLOADS.free_space(_content_length(scope))
            receive = _with_deadline(receive)
            # Gradio raises if a file has no name or is incomplete.
            return await _call_with_fallback(
                self.app, scope, receive, send, 400, b"The upload is broken."
            )
        if path.startswith(MEDIA):  # the route bounds the size
            return await self.app(scope, _with_deadline(receive), send)
        # Read here: a limit that raises while Gradio reads would become its own error 400.
        body, wrong = b"", None
        if post:
            most = SETTINGS.max_call_bytes if path.startswith(CALL_PATH) else self.max_bytes
            body, wrong = await _read_body(receive, most)
        if wrong:
            return await _refuse(send, path, wrong[0], wrong[1].decode())
        # Gradio would fetch an address in a value as a file, so values are checked before it.
        refused, body = await self._check_body(path, body) if post else (None, body)
        if refused:
            return await _refuse(send, path, *refused)
        replies = _replay_body(body, receive) if post else receive
        if not path.startswith(_ENDPOINT_PATHS):
            return await self.app(scope, replies, send)
        return await self._answer_endpoint(scope, replies, send)

    async def _check_body(self, path: str, body: bytes) -> tuple[Refusal | None, bytes]:
        if len(body) <= _SMALL_BODY_BYTES:
            return check_request(path, body, self.inputs)
        # Other visitors' requests are answered meanwhile.
        return await asyncio.to_thread(check_request, path, body, self.inputs)

    async def _answer_endpoint(self, scope: Any, replies: Any, send: Any) -> None:
        listener = _listening_session(scope) if scope["method"] == "GET" else ""
        if not listener:
            return await self._call_endpoint(scope, replies, send)
        with LISTENERS.open_stream(listener):
            try:
                answer = partial(self._call_endpoint, scope)
                await self.streams.serve(listener, answer, replies, send)
            except ListenerRefusedError:
                await _send_response(send, 409, b"Others read this session's answers already.")

    async def _call_endpoint(self, scope: Any, receive: Any, send: Any) -> None:
        # For an unknown endpoint or event Gradio raises before it answers, or in mid-stream.
        gone = b"There is no such endpoint."
        await _call_with_fallback(self.app, scope, receive, send, 404, gone)


def _listening_session(scope: Any) -> str:
    """Return the session whose results a request streams, "" for none."""
    if scope["path"].startswith(_LISTEN_PATH):
        query = parse_qs(scope["query_string"].decode("latin1"))
        return query.get("session_hash", [""])[0][:MAX_SESSION_CHARS]
    # For an API call the event id in the path serves as the session.
    return scope["path"].rpartition("/")[2] if scope["path"].startswith(CALL_PATH) else ""


def _content_length(scope: Any) -> int:
    """Return the declared content length in bytes, or the largest allowed one if it is missing."""
    length = dict(scope["headers"]).get(b"content-length", b"")
    return int(length) if length.isdigit() else SETTINGS.max_trace_bytes


def _is_cross_origin(scope: Any) -> bool:
    """Return whether the browser's headers say that another origin sent the request.

    Programs send none.
    """
    headers = dict(scope["headers"])
    site = headers.get(b"sec-fetch-site", b"")
    if site:
        return site not in (b"same-origin", b"none")
    origin = headers.get(b"origin", b"")
    # Behind a proxy the host differs; a foreign page cannot make a browser send x-forwarded-host.
    own = {headers.get(b"host"), headers.get(b"x-forwarded-host")}
    return bool(origin) and (origin.partition(b"://")[2] or None) not in own - {None}


async def _call_with_fallback(
    app: Any, scope: Any, receive: Any, send: Any, status: int, otherwise: bytes
) -> None:
    """Let the app answer.

    If it raises, end its response or answer with ``status`` and ``otherwise``.
    """
    patient = _DelayedStart(send)
    try:
        await app(scope, receive, patient)
    except Exception:
        await patient.send_fallback(status, otherwise)


class _DelayedStart:
    """Delays a response's start until its first body, since a stream may fail before it."""

    def __init__(self, send: Any) -> None:
        self.send, self.first_message, self.started = send, None, False

    async def __call__(self, message: Any) -> None:
        """Forward a message; the response's start is sent just before the first body."""
        if message["type"] == "http.response.start":
            self.first_message = message
            return
        if self.first_message is not None:
            await self.send(self.first_message)
            self.first_message, self.started = None, True
        await self.send(message)

    async def send_fallback(self, status: int, otherwise: bytes) -> None:
        """End a response that has started, else answer with a status and a sentence."""
        if self.started:
            await self.send({"type": "http.response.body", "body": b"", "more_body": False})
        else:
            await _send_response(self.send, status, otherwise)


def _with_deadline(receive: Any) -> Any:
    """Return a receive function that raises TimeoutError if the whole body takes too long.

    Without it a client that sends a byte now and then would hold a connection for ever.
    """
    until = time.monotonic() + SETTINGS.max_body_s
    whole = False

    async def receives() -> Any:
        nonlocal whole
        if whole:
            return await receive()
        message = await asyncio.wait_for(receive(), max(0.0, until - time.monotonic()))
        whole = not message.get("more_body", False)
        return message

    return receives


async def _read_body(receive: Any, most: int) -> tuple[bytes, tuple[int, bytes] | None]:
    """Return the whole body and None, or no body and the (status, sentence) that refuses it."""
    try:
        return await BODY_BUDGET.read(_body_chunks(_with_deadline(receive)), most), None
    except TimeoutError:
        return b"", (408, b"The request took too long.")
    except BodyTooLargeError:
        return b"", (413, TOO_LARGE.encode())
    except BusyError as error:
        return b"", (503, str(error).encode())


async def _body_chunks(receive: Any) -> AsyncIterator[bytes]:
    """Yield the chunks of a body."""
    more = True
    while more:
        message = await receive()
        yield message.get("body", b"")
        more = message.get("more_body", False)


def _replay_body(body: bytes, receive: Any) -> Any:
    """Return a receive function that delivers the body first, then later messages."""
    first = [{"type": "http.request", "body": body, "more_body": False}]

    async def replies() -> Any:
        return first.pop() if first else await receive()

    return replies


async def _refuse(send: Any, path: str, status: int, sentence: str) -> None:
    """Answer with a sentence, as OpenAI's error object where a program expects one."""
    if not path.startswith(OPENAI_PATH):
        return await _send_response(send, status, sentence.encode())
    body = to_json(refusal_object(status, sentence)).encode()
    return await _send_response(send, status, body, b"application/json")


async def _send_response(
    send: Any, status: int, body: bytes, kind: bytes = b"text/plain; charset=utf-8"
) -> None:
    headers = [(b"content-type", kind)]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def build_middleware(inputs: Mapping[int, int]) -> list[Middleware]:
    """Return the app's middleware. A Space has no host check: the platform chooses its host names.

    Args:
        inputs: Event id -> number of values that the event takes.
    """
    limit = SETTINGS.max_request_bytes
    gates = [Middleware(SecurityHeaders), Middleware(RequestGate, max_bytes=limit, inputs=inputs)]
    if not SETTINGS.public:
        own = ["127.0.0.1", "localhost", "[::1]"]
        hosts = [*own, *os.environ.get("PLAYGROUND_HOSTS", "").split()]
        gates.insert(0, Middleware(TrustedHostMiddleware, allowed_hosts=hosts))
    return [Middleware(ForwardedHeaders, **forwarded_headers_arguments(SETTINGS.proxies)), *gates]
