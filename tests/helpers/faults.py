"""Faults put into the product from outside: the n-th call of one of its functions fails."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from transformers import PreTrainedTokenizerBase
from transformers.generation.logits_process import RepetitionPenaltyLogitsProcessor

from engine import DecodeRequest
from engine.export import files as export_files
from engine.export import script as export_script
from engine.loops.recorder import Recorder
from engine.models import loading
from engine.run.streamer import QueueStreamer
from playground.inspect import questions
from playground.storage.journal import Journal, RunMessages
from playground.storage.run_store import RunStore
from tests.helpers.jobs import read_run

Place = tuple[Any, str]


def _journal() -> list[Place]:
    """Return the methods that others call; whatever the journal is made of."""
    return [
        (kind, name)
        for kind in (Journal, RunMessages, RunStore)
        for name, f in vars(kind).items()
        if callable(f) and name[0] != "_"
    ]


PLACES: dict[str, list[Place]] = {
    "load": [(loading, "_load_model")],
    "tokenise": [(PreTrainedTokenizerBase, "__call__")],
    "forward": [(torch.nn.Embedding, "forward")],
    "processor": [(RepetitionPenaltyLogitsProcessor, "__call__")],
    "record": [(Recorder, "record")],
    "send": [(QueueStreamer, "put")],
    "export": [
        (export_files, "script_text"),
        (export_files, "folder_files"),
        (export_files, "notebook_json"),
        (export_script, "code_sections"),
    ],
    "journal": _journal(),
}
"""Kind of fault -> the functions whose calls are counted together."""


class Calls:
    """Counts the calls of some functions and lets one of them fail.

    Attributes:
        count: calls so far.
        failed: whether the fault has happened.
    """

    def __init__(self, nth: int, error: BaseException | None) -> None:
        self.nth, self.error = nth, error
        self.count, self.failed = 0, False
        self._lock = threading.Lock()

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its calls counted."""

        @functools.wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            self._call()
            return function(*args, **kwargs)

        return counted

    def _call(self) -> None:
        with self._lock:
            self.count += 1
            now = self.error is not None and self.count == self.nth
            self.failed = self.failed or now
        if now:
            assert self.error is not None
            raise self.error


@contextmanager
def failing(place: str, nth: int = 0, error: BaseException | None = None) -> Iterator[Calls]:
    """Count the calls of a kind, and let the n-th fail.

    Args:
        place: a name of PLACES.
        nth: from 1.
        error: what it raises; None only counts.
    """
    calls = Calls(nth, error)
    with ExitStack() as wrapped:
        for owner, name in PLACES[place]:
            wrapped.enter_context(patch.object(owner, name, calls.wrap(getattr(owner, name))))
        yield calls


def messages_of(request: DecodeRequest) -> list[dict[str, Any]]:
    """Return all that a page is told of a run."""
    return [json.loads(text) for text in read_run(request)]


def exported(trace: dict[str, Any]) -> dict[str, Any]:
    """Return the server's answer to a page that asks for the code of a run."""
    return json.loads(questions._handle_event(_Asked({"action": "files", "id": 1, "trace": trace})))


class _Asked:
    """An event of the page, with what its script sent along."""

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data
