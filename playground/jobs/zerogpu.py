"""GPU access on a ZeroGPU Space; no effect elsewhere."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

from engine.settings import SETTINGS

_EXTRA_RUNS = 8
"""Runs admitted beyond the engine's queue.

The engine refuses them with a sentence; Gradio would keep them waiting silently.
"""


def queue_options(queue: str) -> dict[str, Any]:
    """Return the Gradio options of a decoding event, so that its runs wait in the engine's queue.

    On a ZeroGPU every run has its own process and waits in the platform's queue, so few are
    admitted.
    """
    all_of_them = SETTINGS.max_concurrent_runs + SETTINGS.max_waiting_runs + _EXTRA_RUNS
    return {"concurrency_id": queue, "concurrency_limit": 2 if is_zerogpu() else all_of_them}


def server_threads() -> int:
    """Return the server's number of threads: one per queued run, and some for other requests."""
    return SETTINGS.max_concurrent_runs + SETTINGS.max_waiting_runs + 2 * _EXTRA_RUNS + 16


def is_zerogpu() -> bool:
    """Return whether this is a ZeroGPU Space."""
    return os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "true")


def on_gpu(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a handler with ``spaces.GPU`` on a ZeroGPU Space; elsewhere return the handler itself.

    Its yielded values cross a process boundary there, so they must be plain.
    """
    if not is_zerogpu():
        return handler
    try:
        spaces = importlib.import_module("spaces")
    except ImportError:
        return handler
    return spaces.GPU(duration=int(min(SETTINGS.max_runtime_s, 120)))(handler)
