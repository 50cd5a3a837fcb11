"""Whose threads compute: while OpenVINO has them, torch's would only take turns with them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_LOCK = threading.Lock()
_GOING: list[int] = []
"""How many threads torch had before each run that goes on with one of torch's."""


@contextmanager
def threads_for(*models: Any) -> Iterator[None]:
    """Leave torch one thread for a run whose passes OpenVINO computes; other runs have as many as before.

    Args:
        models: LoadedModels of the run; None is ignored.
    """
    alone = any(model is not None and hasattr(model.model, "graphs") for model in models)
    with _LOCK:
        usual = _GOING[0] if _GOING else torch.get_num_threads()
        if alone:
            _GOING.append(usual)
        torch.set_num_threads(1 if alone else usual)
    try:
        yield
    finally:
        with _LOCK:
            if alone:
                _GOING.remove(usual)
            torch.set_num_threads(usual)
