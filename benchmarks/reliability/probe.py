"""Whether the server is there for whoever merely looks: one request after the other, beside everything else."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle

import httpx

_PAUSE_S = 0.2
_GIVEN_UP_S = 60.0


class Probe:
    """Asks for pages in turns until it is stopped.

    Attributes:
        seconds: how long every answer took.
        failed: how many had none, or another status than 200.
    """

    def __init__(self, url: str, paths: Sequence[str]) -> None:
        self.seconds: list[float] = []
        self.failed = 0
        self.ended = threading.Event()
        self._http = httpx.Client(base_url=url, timeout=_GIVEN_UP_S, verify=False, trust_env=False)
        self._paths = cycle(paths)

    def go(self) -> None:
        """Ask until it is ended; the last question is answered before that."""
        with self._http:
            while not self.ended.is_set():
                self._ask(next(self._paths))
                self.ended.wait(_PAUSE_S)

    def _ask(self, path: str) -> None:
        began = time.perf_counter()
        try:
            self.failed += self._http.get(path).status_code != httpx.codes.OK
        except httpx.TransportError:
            self.failed += 1
        self.seconds.append(time.perf_counter() - began)

    @property
    def worst_s(self) -> float:
        """Seconds of the slowest answer."""
        return round(max(self.seconds, default=0.0), 3)


@contextmanager
def probing(url: str, paths: Sequence[str]) -> Iterator[Probe]:
    """Probe a server until the block ends.

    Args:
        url: of the server.
        paths: asked for in turns.
    """
    probe = Probe(url, paths)
    thread = threading.Thread(target=probe.go, daemon=True)
    thread.start()
    try:
        yield probe
    finally:
        probe.ended.set()
        thread.join(_GIVEN_UP_S)
