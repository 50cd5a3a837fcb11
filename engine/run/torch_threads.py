"""Limits torch's threads while OpenVINO computes: both would take turns on the same cores."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

_LOCK = threading.Lock()
_PREVIOUS_COUNTS: list[int] = []
"""torch's thread count before each active run that is limited to one."""


@contextmanager
def limit_torch_threads(*models: Any) -> Iterator[None]:
    """Limit torch to one thread while an OpenVINO run computes; other runs keep the usual count.

    Args:
        models: LoadedModels of the run; None is ignored.
    """
    alone = any(model is not None and hasattr(model.model, "graphs") for model in models)
    with _LOCK:
        # While another run is limited, torch's own count is 1 and not the usual one.
        usual = _PREVIOUS_COUNTS[0] if _PREVIOUS_COUNTS else torch.get_num_threads()
        if alone:
            _PREVIOUS_COUNTS.append(usual)
        torch.set_num_threads(1 if alone else usual)
    try:
        yield
    finally:
        with _LOCK:
            if alone:
                _PREVIOUS_COUNTS.remove(usual)
            torch.set_num_threads(usual)


def lift_thread_limit() -> Callable[[], None]:
    """Give torch its usual threads while the caller's run is paused; return what ends that."""
    with _LOCK:
        own = torch.get_num_threads()
        torch.set_num_threads(_PREVIOUS_COUNTS[0] if _PREVIOUS_COUNTS else own)
    return partial(_set_thread_count, own)


def _set_thread_count(threads: int) -> None:
    with _LOCK:
        torch.set_num_threads(threads)
