"""One replica: a process that decodes for others. Nothing here knows Ray."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import Any

from engine.models.loading import held_names, load
from engine.run import counted
from engine.run.decoding import DecodeRun, decode
from engine.run.request import DecodeRequest
from engine.run.visitor import VISITOR, Visitor
from engine.settings import SETTINGS
from engine.strategies import STRATEGIES
from engine.trace.events import Event

_INTERVAL_S = 0.03
"""Between two batches: a token costs no round trip of its own."""
BEAT_S = 0.5
"""An empty batch comes when nothing has happened for so long, so that silence means a replica is gone."""


class Replica:
    """Decodes for others with this process's own models, line and limits."""

    def __init__(self) -> None:
        self._runs: dict[str, DecodeRun] = {}
        # Each run is waited for in a thread: asyncio's own pool has fewer than a line may be long.
        self._waiting = ThreadPoolExecutor(SETTINGS.max_replica_runs + 1, "replica")
        load(next(iter(STRATEGIES.values())).default_model)

    async def decode(
        self, fields: Mapping[str, Any], visitor: Visitor, call: str
    ) -> AsyncIterator[list[Event]]:
        """Yield the events of a run in batches; an empty one says that the replica is there.

        Args:
            fields: of the DecodeRequest.
            visitor: who asks for it; the line is fair by that.
            call: by this name the run is stopped.
        """
        await self.note_model()
        run = copy_context().run(_begin, DecodeRequest(**fields), visitor)
        self._runs[call] = run
        batches, loop = run.batches(_INTERVAL_S, BEAT_S), asyncio.get_running_loop()
        try:
            while (
                batch := await loop.run_in_executor(self._waiting, next, batches, None)
            ) is not None:
                yield batch
        finally:
            self._runs.pop(call, None)
            run.close()

    async def note_model(self) -> None:
        """Say which model the request that is being answered needs, for those who choose a replica."""

    async def stop(self, call: str) -> bool:
        """Stop a run within one step; return whether it is here."""
        run = self._runs.get(call)
        if run is not None:
            run.cancel()
        return run is not None

    async def report(self) -> dict[str, Any]:
        """Return what an operator wants to know.

        ``pid`` and ``node`` (the machine's name), ``rss_bytes``, ``open_files``, ``threads``, ``runs`` that wait
        or go on, ``models`` in memory, the ``torch_threads`` of one forward pass, and what is ``counted``.
        """
        import torch

        return {
            "pid": os.getpid(),
            "node": socket.gethostname(),
            "rss_bytes": _rss_bytes(),
            "open_files": len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else 0,
            "threads": threading.active_count(),
            "runs": len(self._runs),
            "models": held_names(),
            "torch_threads": torch.get_num_threads(),
            "counted": counted.snapshot(),
        }

    async def alive(self) -> bool:
        """Return True: whoever hears that knows that somebody is here."""
        return True


def _begin(request: DecodeRequest, visitor: Visitor) -> DecodeRun:
    VISITOR.set(visitor)
    return decode(request)


def _rss_bytes() -> int:
    """Return the memory of this process, 0 where the system does not tell."""
    statm = Path("/proc/self/statm")
    if not statm.is_file():
        return 0
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
