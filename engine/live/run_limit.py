"""Bounds the runs on servers: they compute nothing here, so the queue of local runs has none of them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from engine.errors import BusyError
from engine.settings import SETTINGS

_RUNS: Counter[str] = Counter()
"""Network address of a visitor -> its runs."""
_LOCK = threading.Lock()


@contextmanager
def one_of_few(address: str) -> Iterator[None]:
    """Count a run while it goes on.

    Args:
        address: network address of its visitor; empty if the program itself began it.

    Raises:
        BusyError: too many runs go on, of all visitors or of this one on a public Space.
    """
    with _LOCK:
        own = SETTINGS.public and address and _RUNS[address] >= SETTINGS.max_runs_per_address
        if own or _RUNS.total() >= SETTINGS.max_waiting_runs:
            raise BusyError(
                "{n} runs wait for model servers already. Try again later.", n=_RUNS.total()
            )
        _RUNS[address] += 1
    try:
        yield
    finally:
        with _LOCK:
            _RUNS[address] -= 1
            if not _RUNS[address]:
                del _RUNS[address]
