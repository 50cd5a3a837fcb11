"""Where a model is computed: the device that accelerate chooses, and those there are."""

from __future__ import annotations

import threading
from functools import lru_cache

import torch

from engine.errors import ModelError

_LOCK = threading.Lock()


def default_device() -> str:
    """Return the device accelerate chooses: cuda, mps or cpu."""
    # What all Accelerators share has no device yet while another thread makes the first of them.
    with _LOCK:
        return _default_device()


@lru_cache(maxsize=1)
def _default_device() -> str:
    from accelerate import Accelerator

    return str(Accelerator().device)


def check_device(device: str) -> None:
    """Refuse a device that is not there.

    Raises:
        ModelError: it is none, or not of this machine.
    """
    try:
        kind = torch.device(device).type
    except (RuntimeError, TypeError):
        raise ModelError(f"device = {device!r} is not a device of this machine.") from None
    available = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if not available.get(kind, False):
        raise ModelError(f"device = {device!r} is not available on this machine.")
