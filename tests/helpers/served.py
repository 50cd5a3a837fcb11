"""The playground served from threads of this process, so that a test can hold its models."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from engine.models.loading import load
from engine.run import jobs
from engine.strategies import STRATEGIES
from playground.app import serve
from tests.helpers.patience import PATIENCE_S
from tests.helpers.server import free_port

SERVED_HERE = [
    pytest.mark.filterwarnings(f"ignore:{text}")
    for text in (
        "'future.no_silent_downcasting'",
        "The copy keyword is deprecated",
        ":pytest.PytestUnraisableExceptionWarning",
    )
]
"""Marks of a module that serves from its own process: of Gradio's own doing, in threads and loops it leaves."""


@contextmanager
def served() -> Iterator[tuple[str, Any]]:
    """Yield the address and Gradio's app; the first tab's model is loaded."""
    port = free_port()
    demo = serve("127.0.0.1", port)
    load(next(iter(STRATEGIES.values())).default_model)
    try:
        yield f"http://127.0.0.1:{port}", demo
    finally:
        jobs.stop_all_jobs(PATIENCE_S)
        demo.close()
        # What Gradio leaves is found here, under these marks, and not in another file's test.
        gc.collect()
