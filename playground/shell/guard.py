"""Error handling for Gradio handlers: every exception becomes one sentence for the visitor.

Gradio catches ``Exception`` only. A SystemExit or a panic of the tokenizer library would freeze the
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
from engine.messages import Message
from engine.model_code import find_model_code_error, is_out_of_memory
from playground.shell import lazy_imports

_LOG = logging.getLogger("playground")


class ErrorCounter:
    """A thread-safe counter."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def add(self) -> None:
        """Count one more error."""
        with self._lock:
            self.count += 1


ERROR_COUNT = ErrorCounter()
"""Unexpected errors since the start; visitors see only a reference for them."""


def guard_handler(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Return the handler with any exception converted to a ``gr.Error`` with one sentence."""

    @functools.wraps(handler)
    def safe(*args: Any, **kwargs: Any) -> Any:
        lazy_imports.wait_until_loaded()
        try:
            return handler(*args, **kwargs)
        # Already one sentence.
        except gr.Error:
            raise
        except BaseException as error:
            raise gr.Error(error_message(error), print_exception=False) from None

    return safe


def error_message(error: BaseException) -> str:
    """Return the sentence for the visitor; an unexpected error is logged under a reference."""
    if isinstance(error, EngineError):
        return str(error)
    found = find_model_code_error(error)
    if found is not None:
        return str(found)
    if is_out_of_memory(error):
        return Message("There is not enough memory for this; try less text or a smaller model.")
    # The message of an unexpected error may quote a prompt, so only its type is logged.
    reference, kind = uuid.uuid4().hex[:8], type(error).__name__
    ERROR_COUNT.add()
    about = {"reference": reference, "error": kind}
    _LOG.error("handler failed: %s, reference %s", kind, reference, extra=about)
    return Message(
        "Something went wrong inside the playground (reference {reference}); please try again.",
        reference=reference,
    )
