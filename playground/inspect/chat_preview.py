"""Preview of a chat template: the tokens that a model reads, before a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from engine.declare.special_tokens import PARSE, TEXT
from engine.errors import ModelError
from engine.models.tokenizer_only import TokenizerOnly, load_tokenizer_only
from engine.run.chat_request import check_messages, render_conversation
from engine.sources.source import Source
from playground.jobs.registry import JOBS, OTHERS_ASK_MESSAGE, QUESTION_WAIT_S, JobKind

ACTIONS = ("rendered",)
# Few conversations are rendered at once, so that runs keep the processor.
_KIND = JobKind("rendered", slots=2, wait_s=QUESTION_WAIT_S, busy=OTHERS_ASK_MESSAGE)


def act(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tokens of a conversation after the model's chat template.

    Args:
        payload: ``model``, its name; ``messages`` and ``template`` as in a request; ``special_tokens``,
            the reading of those that the messages spell, "" for the usual one.

    Returns:
        ``tokens``, each with its ``text`` and whether it is ``special``; ``turns``, the speaker of
        each token span; ``literal``, how many control tokens in the messages were read as plain
        text.

    Raises:
        EngineError: One sentence naming what is not valid.
    """
    model, messages, template = (payload.get(name) for name in ("model", "messages", "template"))
    check_messages(messages, template)
    if not isinstance(model, str) or not model:
        raise ModelError("Choose a model: each has its own chat template.")
    with JOBS.run(_KIND):
        read = load_tokenizer_only(Source.parse(model))
        reading = PARSE if payload.get("special_tokens") == PARSE else TEXT
        found = render_conversation(messages or (), template, read, reading)
    return {
        "tokens": list_tokens(read, found.ids),
        "turns": [asdict(turn) for turn in found.turns],
        "literal": found.literal_tokens,
    }


def list_tokens(read: TokenizerOnly, ids: Sequence[int]) -> list[dict[str, Any]]:
    """Return the ``text`` of each token and whether it is ``special``."""
    pieces = read.pieces
    return [{"text": pieces[i], "special": i in pieces.special} for i in ids]
