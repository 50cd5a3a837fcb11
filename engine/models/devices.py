"""Compute devices: the default chosen by accelerate, and which ones exist."""

from __future__ import annotations

import threading
from functools import lru_cache

import torch

from engine.errors import ModelError

_LOCK = threading.Lock()


def default_device() -> str:
    """Return the device accelerate chooses: cuda, mps or cpu."""
    # Accelerator's shared state has no device yet while another thread creates the first one.
    with _LOCK:
        return _default_device()


@lru_cache(maxsize=1)
def _default_device() -> str:
    from accelerate import Accelerator

    return str(Accelerator().device)


def check_device(device: str) -> None:
    """Check that a device exists on this machine.

    Raises:
        ModelError: the name is not a device, or the device is not available.
    """
    try:
        kind = torch.device(device).type
    except (RuntimeError, TypeError):
        raise ModelError(
            "device = {device} is not a device of this machine.", device=repr(device)
        ) from None
    available = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if not available.get(kind, False):
        raise ModelError("device = {device} is not available on this machine.", device=repr(device))
