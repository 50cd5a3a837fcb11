"""Comparison of a run with another model: both score the run's text."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from engine.analysis.score_with_other_model import compare_models, models_to_load
from engine.errors import BusyError, Cancelled, ModelError, StoppedError
from engine.export.model_comparison_csv import model_comparison_csv
from engine.run.preparation import ModelLoader
from engine.run.scheduler import ignore_event
from engine.sources.source import Source
from engine.trace.records import Trace
from playground.forms.form import single_model_weights

_COMPARISON_SLOT = threading.Semaphore(1)
"""One comparison at a time: each holds two models in memory."""
_WAIT_S = 20.0
_POLL_S = 0.05
STOPPED = "Stopped."


def act(asked: Mapping[str, Any], trace: Trace, gone: Callable[[], bool]) -> dict[str, Any]:
    """Return both models' scores, as ``ModelComparison.to_dict``, and the table as ``csv``.

    Args:
        asked: ``model``, the other model's name (empty for the run's own), and ``weights``, its
            precision and placement as control values.
        trace: the run; its steps may be missing.
        gone: returns True once the request was stopped or its page disconnected.

    Raises:
        EngineError: a value is not valid, the request was stopped, or another comparison is
            running.
    """
    model, weights = asked.get("model") or None, asked.get("weights") or {}
    if model is not None and not isinstance(model, str):
        raise ModelError("Name the model beside it: a name of the list, a hub id or a folder.")
    own, other = models_to_load(trace, model, single_model_weights(weights))
    if own == other:
        raise ModelError("That is the run's own model as it was held; choose another one.")
    with _DisconnectEvent(gone) as cancelled:
        _wait_for_turn(cancelled)
        try:
            models = ModelLoader(cancelled, ignore_event)
            loaded = [models(Source.parse(name), held) for name, held in (own, other)]
            found = compare_models(trace, loaded[0], loaded[1], cancelled)
            return {**found.to_dict(), "csv": model_comparison_csv(found)}
        except Cancelled:
            raise StoppedError(STOPPED) from None
        finally:
            _COMPARISON_SLOT.release()


def _wait_for_turn(cancelled: threading.Event) -> None:
    until = time.monotonic() + _WAIT_S
    while not _COMPARISON_SLOT.acquire(timeout=_POLL_S):
        if cancelled.is_set():
            raise StoppedError(STOPPED)
        if time.monotonic() > until:
            raise BusyError("Somebody else compares two models; try again in a moment.")


class _DisconnectEvent:
    """A context with an event that is set once the client of a question has disconnected."""

    def __init__(self, gone: Callable[[], bool]) -> None:
        self.gone, self.cancelled, self.over = gone, threading.Event(), threading.Event()

    def __enter__(self) -> threading.Event:
        threading.Thread(target=self._watch, daemon=True).start()
        return self.cancelled

    def __exit__(self, *raised: Any) -> None:
        self.over.set()

    def _watch(self) -> None:
        # The engine checks an event; whether the page is still there can only be polled.
        while not self.over.wait(_POLL_S):
            if self.gone():
                self.cancelled.set()
                return
