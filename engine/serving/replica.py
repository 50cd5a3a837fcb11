"""A replica: a process that decodes for others. It does not depend on Ray."""

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

from engine.models.loading import list_loaded_models, load
from engine.run import run_counters
from engine.run.decoding import DecodeRun, decode
from engine.run.request import DecodeRequest
from engine.run.visitor import VISITOR, Visitor
from engine.settings import SETTINGS
from engine.strategies import STRATEGIES
from engine.trace.events import Event

_BATCH_INTERVAL_S = 0.03
"""Interval of batches, so that not every token needs a round trip."""
HEARTBEAT_S = 0.5
"""An empty batch is sent after so long without events; longer silence means a lost replica."""


class Replica:
    """Decodes for others with this process's models, queue and limits."""

    def __init__(self) -> None:
        self._runs: dict[str, DecodeRun] = {}
        # One thread waits for each run; asyncio's default pool may have fewer than the queue needs.
        self._waiting = ThreadPoolExecutor(SETTINGS.max_replica_runs + 1, "replica")
        load(next(iter(STRATEGIES.values())).default_model)

    async def decode(
        self, fields: Mapping[str, Any], visitor: Visitor, call: str
    ) -> AsyncIterator[list[Event]]:
        """Yield the events of a run in batches; an empty batch is a heartbeat.

        Args:
            fields: fields of the DecodeRequest.
            visitor: the sender; the queue is fair by visitor.
            call: name that ``stop`` uses for the run.
        """
        await self.note_model()
        run = copy_context().run(_start_run, DecodeRequest(**fields), visitor)
        self._runs[call] = run
        batches, loop = run.batches(_BATCH_INTERVAL_S, HEARTBEAT_S), asyncio.get_running_loop()
        try:
            while (
                batch := await loop.run_in_executor(self._waiting, next, batches, None)
            ) is not None:
                yield batch
        finally:
            self._runs.pop(call, None)
            run.close()

    async def note_model(self) -> None:
        """Report the current request's model to the router; here it does nothing."""

    async def stop(self, call: str) -> bool:
        """Stop a run within one step; return whether it is on this replica."""
        run = self._runs.get(call)
        if run is not None:
            run.cancel()
        return run is not None

    async def report(self) -> dict[str, Any]:
        """Return this replica's figures for operators.

        ``pid``, ``node`` (host name), ``rss_bytes``, ``open_files``, ``threads``, ``runs`` waiting
        or active, ``models`` in memory, ``torch_threads`` of one forward pass, and the ``counted``
        totals.
        """
        import torch

        return {
            "pid": os.getpid(),
            "node": socket.gethostname(),
            "rss_bytes": _rss_bytes(),
            "open_files": len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else 0,
            "threads": threading.active_count(),
            "runs": len(self._runs),
            "models": list_loaded_models(),
            "torch_threads": torch.get_num_threads(),
            "counted": run_counters.snapshot(),
        }

    async def alive(self) -> bool:
        """Return True: any answer shows that a replica exists."""
        return True


def _start_run(request: DecodeRequest, visitor: Visitor) -> DecodeRun:
    # Runs in a copied context, so that requests do not see each other's visitor.
    VISITOR.set(visitor)
    return decode(request)


def _rss_bytes() -> int:
    """Return the memory of this process, 0 if the system does not report it."""
    statm = Path("/proc/self/statm")
    if not statm.is_file():
        return 0
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
