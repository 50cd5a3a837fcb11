"""Requests to a model server: one pinned address, no redirects, and caps on bytes, time and number."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType

import httpx

from engine.endpoints.endpoint_keys import find_key
from engine.endpoints.pinned_address import Resolver, pin_address, resolve_host
from engine.endpoints.read_answer import error_words
from engine.endpoints.stop_watch import StopWatch
from engine.errors import DecodeError, TraceError
from engine.settings import SETTINGS
from engine.sources.endpoint_address import EndpointAddress
from engine.trace.checks import read_json_strict
from engine.trace.value_types import JsonObject, JsonValue

_CONNECT_S = 10.0
_MAX_ERROR_BYTES = 20_000
_REFUSED = (401, 403)
for _logger in ("httpcore", "httpx"):
    # Their messages contain headers, in which a server may repeat a key.
    logging.getLogger(_logger).setLevel(logging.WARNING)


class ServerError(DecodeError):
    """A model server answered a request with an error of HTTP."""


@dataclass(frozen=True, slots=True)
class RequestCaps:
    """Most bytes and seconds of one answer, and most requests of one client."""

    answer_bytes: int = SETTINGS.max_endpoint_bytes
    seconds: float = SETTINGS.max_endpoint_s
    requests: int = SETTINGS.max_endpoint_requests


class EndpointClient:
    """Talks to one model server; use it as a context manager.

    Args:
        address: base address of the server.
        caps: limits of its requests.
        cancelled: set to end a request that is under way.
        resolve: finds the IP addresses of a host.

    Raises:
        ModelError: this deployment may not use the address.
        DecodeError: the host has no address.
    """

    def __init__(
        self,
        address: EndpointAddress,
        caps: RequestCaps | None = None,
        cancelled: threading.Event | None = None,
        resolve: Resolver = resolve_host,
    ) -> None:
        self.address, self.caps = address, caps or RequestCaps()
        self.requests = 0
        self._key = find_key(address)
        self._watch = StopWatch(cancelled or threading.Event())
        self._url = httpx.URL(
            scheme=address.scheme, host=pin_address(address, resolve), port=address.port
        )
        # The environment could name a proxy, which would connect to another address, or a netrc.
        # Certificates are read for https only, because that takes a tenth of a second.
        self._http = httpx.Client(
            trust_env=False,
            follow_redirects=False,
            verify=address.scheme == "https",
            timeout=httpx.Timeout(self.caps.seconds, connect=_CONNECT_S),
        )

    def __enter__(self) -> EndpointClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()

    def get(self, path: str) -> JsonValue:
        """Return the JSON at a path of the server.

        Raises:
            DecodeError: the server did not answer, or with something else.
        """
        return self._read_json("GET", path, None)

    def post(self, path: str, body: Mapping[str, object]) -> JsonValue:
        """Return the JSON answer to a JSON body.

        Raises:
            DecodeError: the server did not answer, or with something else.
        """
        return self._read_json("POST", path, body)

    def stream(self, path: str, body: Mapping[str, object]) -> Iterator[JsonObject]:
        """Yield the events of a streamed answer, as they come: SSE, or one JSON object per line.

        Raises:
            DecodeError: the server did not answer, broke off, or sent no events.
        """
        rest = b""
        with self._open("POST", path, body) as chunks:
            for chunk in chunks:
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield from self._read_line(line)
        yield from self._read_line(rest)

    def _read_line(self, line: bytes) -> Iterator[JsonObject]:
        """Yield the JSON object of a line; a stream has each event in one line."""
        text = line.strip()
        if text.startswith(b"data:"):
            text = text[5:].strip()
        elif not text.startswith(b"{"):  # an empty line, a comment, or the name of an event
            return
        if not text or text == b"[DONE]":
            return
        value = self._parse(text)
        if isinstance(value, dict):
            yield value

    def _read_json(self, method: str, path: str, body: Mapping[str, object] | None) -> JsonValue:
        with self._open(method, path, body) as chunks:
            return self._parse(b"".join(chunks))

    def _parse(self, data: bytes) -> JsonValue:
        try:
            value = read_json_strict(data, self.caps.answer_bytes)
        except TraceError as error:
            raise DecodeError(
                "The answer of {host} cannot be read: {why}",
                host=self.address.netloc,
                why=str(error),
            ) from None
        if self._key and _contains(value, self._key):
            raise DecodeError(
                "The server at {host} repeats the key that it was sent, so its answer is not used.",
                host=self.address.netloc,
            )
        return value

    @contextmanager
    def _open(
        self, method: str, path: str, body: Mapping[str, object] | None
    ) -> Iterator[Iterator[bytes]]:
        """Send a request and yield the chunks of its answer."""
        self.requests += 1
        if self.requests > self.caps.requests:
            raise DecodeError(
                "The run needs more than {n} requests to a server, the most that are allowed.",
                n=self.caps.requests,
            )
        until = time.monotonic() + self.caps.seconds
        request = self._http.build_request(
            method,
            self._url.copy_with(path=path),
            json=body,
            headers=self._headers(),
            extensions={"sni_hostname": self.address.host, "trace": self._watch.see_connection},
        )
        with self._report_failures(until), self._watch.limit(until):
            response = self._http.send(request, stream=True)
            try:
                self._check_status(response)
                yield self._iter_chunks(response, self.caps.answer_bytes)
                # A connection that the watch shut down may look like the end of an answer.
                self._watch.raise_if_stopped()
                self._check_time(until)
            finally:
                response.close()

    def _headers(self) -> dict[str, str]:
        # Compressed answers could be far larger than what was counted.
        found = {"Host": self.address.netloc, "Accept-Encoding": "identity"}
        return found | ({"Authorization": f"Bearer {self._key}"} if self._key else {})

    def _iter_chunks(self, response: httpx.Response, most: int) -> Iterator[bytes]:
        size = 0
        for chunk in response.iter_raw():
            size += len(chunk)
            if size > most:
                raise DecodeError(
                    "The answer of {host} is larger than {n} bytes.",
                    host=self.address.netloc,
                    n=most,
                )
            yield chunk

    def _check_status(self, response: httpx.Response) -> None:
        host = self.address.netloc
        if response.is_redirect or 300 <= response.status_code < 400:
            raise ServerError(
                "The server at {host} redirects to another address, which is never followed.",
                host=host,
            )
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise DecodeError("The server at {host} compresses its answers unasked.", host=host)
        if response.status_code < 400:
            return
        if response.status_code in _REFUSED:
            raise ServerError(
                "The server at {host} wants another key: set PLAYGROUND_ENDPOINT_KEYS to its address "
                "and key.",
                host=host,
            )
        raise ServerError(
            "The server at {host} answered with the error {status}: {why}",
            status=response.status_code,
            host=host,
            why=self._error_words(response),
        )

    def _error_words(self, response: httpx.Response) -> str:
        """Return the server's own words about an error, unless they repeat the key."""
        try:
            data = b"".join(self._iter_chunks(response, _MAX_ERROR_BYTES))
            value = read_json_strict(data, _MAX_ERROR_BYTES)
            hidden = self._key is not None and _contains(value, self._key)
            words = "" if hidden else error_words(value)
        except (DecodeError, TraceError):
            words = ""
        return "".join(c if c.isprintable() else " " for c in words) or "?"

    def _check_time(self, until: float) -> None:
        if time.monotonic() >= until:
            raise DecodeError(
                "The server at {host} took longer than {n} seconds.",
                host=self.address.netloc,
                n=f"{self.caps.seconds:g}",
            ) from None

    @contextmanager
    def _report_failures(self, until: float) -> Iterator[None]:
        """Turn failures of the connection into one sentence."""
        host = self.address.netloc
        try:
            yield
        except httpx.HTTPError as error:
            self._watch.raise_if_stopped()
            self._check_time(until if not isinstance(error, httpx.ReadTimeout) else 0)
            if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
                raise DecodeError(
                    "The server at {host} cannot be reached: start it, or check the address.",
                    host=host,
                ) from None
            raise DecodeError(
                "The connection to {host} broke off in the middle of an answer.", host=host
            ) from None


def _contains(value: JsonValue, word: str) -> bool:
    """Return True if a text anywhere in a JSON value contains a word."""
    if isinstance(value, str):
        return word in value
    if isinstance(value, dict):
        return any(word in name or _contains(item, word) for name, item in value.items())
    return isinstance(value, list) and any(_contains(item, word) for item in value)
