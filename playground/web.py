"""What stands between the network and Gradio: host check, body limit, closed side doors."""

from __future__ import annotations

import os
from typing import Any

from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware

from engine.settings import SETTINGS

_CLOSED = ("/gradio_api/deep_link", "/deep_link", "/monitoring", "/gradio_api/runs",
           "/gradio_api/dev", "/gradio_api/run/", "/run/", "/openapi.json", "/docs")
_UPLOADS = "/gradio_api/upload"


class _TooLarge(Exception):
    """The body passed the limit while it was read."""


class Gate:
    """ASGI middleware: refuses large bodies with 413 and closed paths with 404."""

    def __init__(self, app: Any, max_bytes: int) -> None:
        self.app, self.max_bytes = app, max_bytes

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        path = scope["path"]
        if path.startswith(_CLOSED):
            return await _answer(send, 404, b"Not found")
        limit = SETTINGS.max_trace_bytes if path.startswith(_UPLOADS) else self.max_bytes
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > limit:
            return await _answer(send, 413, b"The request is too large.")
        return await self._limited(scope, receive, send, limit)

    async def _limited(self, scope: Any, receive: Any, send: Any, limit: int) -> None:
        size, started = 0, False

        async def counted() -> Any:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > limit:
                raise _TooLarge
            return message

        async def noted(message: Any) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, counted, noted)
        except _TooLarge:
            if not started:
                await _answer(send, 413, b"The request is too large.")


async def _answer(send: Any, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def middleware() -> list[Middleware]:
    """Return the middleware of the app; a Space is reached under the platform's own host names."""
    gates = [Middleware(Gate, max_bytes=SETTINGS.max_request_bytes)]
    if not SETTINGS.public:
        hosts = ["127.0.0.1", "localhost", "::1", *os.environ.get("PLAYGROUND_HOSTS", "").split()]
        gates.insert(0, Middleware(TrustedHostMiddleware, allowed_hosts=hosts))
    return gates
