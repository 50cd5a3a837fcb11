"""Borrowing a GPU on a ZeroGPU Space; nothing at all elsewhere."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

from engine.settings import SETTINGS


def on_gpu(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Return the handler run under ``spaces.GPU`` where a ZeroGPU is, else the handler itself.

    What it yields crosses a process boundary there, so it must be plain values.
    """
    if os.environ.get("SPACES_ZERO_GPU", "").lower() not in ("1", "true"):
        return handler
    try:
        spaces = importlib.import_module("spaces")
    except ImportError:
        return handler
    return spaces.GPU(duration=int(min(SETTINGS.max_runtime_s, 120)))(handler)
