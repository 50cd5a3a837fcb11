"""Borrowing a GPU on a ZeroGPU Space; nothing at all elsewhere."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

from engine.settings import SETTINGS

_SPARE = 8
"""Runs beyond what the line takes: the engine refuses them in a sentence, Gradio would in silence."""


def in_line(queue: str) -> dict[str, Any]:
    """Return the options of an event that decodes: all of them reach the engine, whose line they share.

    On a ZeroGPU every run has a process of its own and the platform's line, so few are let in.
    """
    all_of_them = SETTINGS.max_concurrent_runs + SETTINGS.max_waiting_runs + _SPARE
    return {"concurrency_id": queue, "concurrency_limit": 2 if is_here() else all_of_them}


def threads() -> int:
    """Return how many threads the server needs: one for every run in line, and some to answer the rest."""
    return SETTINGS.max_concurrent_runs + SETTINGS.max_waiting_runs + 2 * _SPARE + 16


def is_here() -> bool:
    """Return whether this is a ZeroGPU Space."""
    return os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "true")


def on_gpu(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Return the handler run under ``spaces.GPU`` where a ZeroGPU is, else the handler itself.

    What it yields crosses a process boundary there, so it must be plain values.
    """
    if not is_here():
        return handler
    try:
        spaces = importlib.import_module("spaces")
    except ImportError:
        return handler
    return spaces.GPU(duration=int(min(SETTINGS.max_runtime_s, 120)))(handler)
