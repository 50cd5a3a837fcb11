"""Preview of a chat template: the tokens that a model reads, before a run."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from engine.errors import BusyError, ModelError
from engine.models.tokenizer_only import load_tokenizer_only
from engine.run.chat_request import check_messages, render_conversation
from engine.sources.source import Source

ACTIONS = ("rendered",)
_RENDER_SLOTS = threading.Semaphore(2)
"""Conversations rendered at once. Few, so that runs keep the processor."""
_WAIT_S = 20.0


def act(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tokens of a conversation after the model's chat template.

    Args:
        asked: ``model``, its name; ``messages`` and ``template`` as in a request.

    Returns:
        ``tokens``, each with its ``text`` and whether it is ``special``; ``turns``, the speaker of
        each token span; ``literal``, how many control tokens in the messages were read as plain
        text.

    Raises:
        EngineError: One sentence naming what is not valid.
    """
    model, messages, template = (asked.get(name) for name in ("model", "messages", "template"))
    check_messages(messages, template)
    if not isinstance(model, str) or not model:
        raise ModelError("Choose a model: each has a chat template of its own.")
    if not _RENDER_SLOTS.acquire(timeout=_WAIT_S):
        raise BusyError("Others are asking, too; try again in a moment.")
    try:
        read = load_tokenizer_only(Source.parse(model))
        found = render_conversation(messages, template, read)
    finally:
        _RENDER_SLOTS.release()
    pieces = read.pieces
    return {
        "tokens": [{"text": pieces[i], "special": i in pieces.special} for i in found.ids],
        "turns": [asdict(turn) for turn in found.turns],
        "literal": found.literal_tokens,
    }
