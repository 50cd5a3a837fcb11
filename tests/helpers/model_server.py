"""A model server on 127.0.0.1 for tests: it answers as it is told, also slowly, wrongly or in part."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.helpers.patience import PATIENCE_S


@dataclass(frozen=True)
class Reply:
    """One answer.

    Attributes:
        body: JSON, or chunks that are sent one by one.
        dies: True if the connection ends before the answer does.
    """

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    dies: bool = False

    def chunks(self) -> Iterable[bytes]:
        """Return the parts of the body."""
        if isinstance(self.body, dict):
            return [json.dumps(self.body).encode()]
        return [self.body] if isinstance(self.body, bytes) else self.body or []


@dataclass(frozen=True)
class Asked:
    """A request that the server got."""

    path: str
    headers: dict[str, str]
    body: Any


Answer = Callable[[Asked], Reply]


class FakeServer(ThreadingHTTPServer):
    """Answers each path with a function.

    Attributes:
        asked: all requests so far.
        released: set to let answers go on that wait for it.
    """

    daemon_threads = True

    def __init__(self, answers: dict[str, Answer]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers, self.asked = answers, list[Asked]()
        self.released = threading.Event()

    @property
    def base(self) -> str:
        """Base address of its interface."""
        return f"http://127.0.0.1:{self.server_port}/v1"

    def wait(self) -> None:
        """Wait as a slow server does, until the test ends or lets it go on."""
        self.released.wait(PATIENCE_S)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Otherwise each answer waits 40 ms until the client has acknowledged its head.
    disable_nagle_algorithm = True
    server: FakeServer

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, body: Any) -> None:
        asked = Asked(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
        self.server.asked.append(asked)
        answer = self.server.answers.get(self.path)
        reply = Reply({"error": {"message": "not here"}}, 404) if answer is None else answer(asked)
        try:
            self._send(reply)
        except OSError:  # the client has left
            self.close_connection = True

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in reply.chunks():
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            self.wfile.flush()
        if reply.dies:
            self.close_connection = True
            self.connection.close()
        else:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextmanager
def serve_models(answers: dict[str, Answer]) -> Iterator[FakeServer]:
    """Yield a server that answers these paths."""
    server = FakeServer(answers)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE_S)


def to_events(objects: Iterable[Any]) -> Iterator[bytes]:
    """Yield the events of a stream (SSE)."""
    for value in objects:
        yield b"data: " + json.dumps(value).encode() + b"\n\n"
    yield b"data: [DONE]\n\n"
