"""Preview of a prompt that spells special tokens of the model: its tokens under each reading."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.declare.special_tokens import SPECIAL_TOKENS
from engine.errors import ModelError, ParameterError
from engine.models.special_tokens import encode_prompt, find_special_tokens, special_token_names
from engine.models.tokenizer_only import TokenizerOnly, load_tokenizer_only
from engine.run.chat_request import check_messages, render_conversation
from engine.run.prompt_request import check_prompt, default_special_tokens
from engine.sources.source import Source
from playground.inspect.chat_preview import list_tokens
from playground.jobs.registry import JOBS, OTHERS_ASK_MESSAGE, QUESTION_WAIT_S, JobKind

ACTIONS = ("special_tokens",)
_KIND = JobKind("special_tokens", slots=2, wait_s=QUESTION_WAIT_S, busy=OTHERS_ASK_MESSAGE)


def act(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a prompt is read with its special tokens as text and as tokens.

    Args:
        payload: ``model``, its name, and ``prompt`` or ``messages`` with ``template`` as in a request;
            ``chat``, whether a prompt is a text that continues the answer to messages.

    Returns:
        ``names``, the special tokens that it spells. If there are any, also ``usual``, the reading
        unless a run chooses one; and for each reading its ``tokens``, each with its ``text`` and
        whether it is ``special``, or the ``refused`` reason.

    Raises:
        EngineError: One sentence naming what is not valid.
    """
    model, prompt, messages = (payload.get(name) for name in ("model", "prompt", "messages"))
    if messages is None:
        check_prompt(prompt)
    else:
        check_messages(messages, payload.get("template"))
    if not isinstance(model, str) or not model:
        raise ModelError("Choose a model: each has its own special tokens.")
    with JOBS.run(_KIND):
        read = load_tokenizer_only(Source.parse(model))
        names = _spelled_names(read, payload)
        if not names:
            return {"names": []}
        return {
            "names": names,
            "usual": default_special_tokens(
                chat=messages is not None or payload.get("chat") is True
            ),
            **{reading: _read_as(read, payload, reading) for reading in SPECIAL_TOKENS},
        }


def _spelled_names(read: TokenizerOnly, payload: Mapping[str, Any]) -> list[str]:
    """Return the special tokens that a prompt or its messages spell, each once."""
    if payload.get("messages") is None:
        return list(dict.fromkeys(find_special_tokens(read.tokenizer, payload["prompt"])))
    chat = render_conversation(payload["messages"], payload.get("template"), read)
    text = "\n".join(str(message.get("content") or "") for message in payload["messages"])
    names = special_token_names(read.tokenizer).values()
    return [name for name in names if name in text] if chat.literal_tokens else []


def _read_as(read: TokenizerOnly, payload: Mapping[str, Any], reading: str) -> dict[str, Any]:
    messages = payload.get("messages")
    try:
        if messages is None:
            ids = encode_prompt(read.tokenizer, payload["prompt"], reading)
        else:
            ids = render_conversation(messages, payload.get("template"), read, reading).ids
    except ParameterError as error:
        return {"refused": str(error)}
    return {"tokens": list_tokens(read, ids)}
