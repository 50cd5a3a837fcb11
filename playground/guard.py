"""One guard round every handler: no exception of any kind may leave a visitor waiting.

Gradio catches Exception only; a SystemExit or a panic of the tokenizer library would freeze the
server or leave the page without an answer.
"""

from __future__ import annotations

import functools
import logging
import threading
import uuid
from collections.abc import Callable
from typing import Any

import gradio as gr

from engine.errors import EngineError

_LOG = logging.getLogger("playground")


class Occurrences:
    """How often something happened."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def add(self) -> None:
        """Count it once more."""
        with self._lock:
            self.count += 1


ERRORS = Occurrences()
"""Of the program's own, which a visitor was told without their reason."""


def guarded(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Turn whatever a plain handler raises into one clean sentence."""

    @functools.wraps(handler)
    def safe(*args: Any, **kwargs: Any) -> Any:
        try:
            return handler(*args, **kwargs)
        except gr.Error:
            raise
        except BaseException as error:
            raise gr.Error(sentence(error), print_exception=False) from None

    return safe


def sentence(error: BaseException) -> str:
    """Return what a user is told; everything unexpected gets a reference to the log."""
    if isinstance(error, EngineError):
        return str(error)
    reference, kind = uuid.uuid4().hex[:8], type(error).__name__
    ERRORS.add()
    about = {"reference": reference, "error": kind}
    _LOG.error("handler failed: %s, reference %s", kind, reference, extra=about)
    return f"Something went wrong inside the playground (reference {reference}); please try again."
