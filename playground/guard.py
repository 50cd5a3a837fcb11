"""One guard round every handler: no exception of any kind may leave a visitor waiting.

Gradio catches Exception only; a SystemExit or a panic of the tokenizer library would freeze the
server or leave the page without an answer.
"""

from __future__ import annotations

import functools
import logging
import uuid
from collections.abc import Callable
from typing import Any

import gradio as gr

from engine.errors import EngineError

_LOG = logging.getLogger("playground")


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
    reference = uuid.uuid4().hex[:8]
    _LOG.error("handler failed: %s, reference %s", type(error).__name__, reference)
    return f"Something went wrong inside the playground (reference {reference}); please try again."
