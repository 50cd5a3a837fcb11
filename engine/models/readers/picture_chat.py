"""Conversations with a picture: rendered by the processor's template, with each token's speaker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engine.errors import ModelError, ParameterError
from engine.messages import Message
from engine.models.chat import ChatPrompt
from engine.models.templates import apply_template
from engine.models.text import common_prefix_length
from engine.trace.records import TEMPLATE_ROLE, PromptTurn


def render_with_picture(
    whole: Any, name: str, messages: Sequence[Mapping[str, object]], template: Mapping[str, object]
) -> str:
    """Render a conversation with the processor's template, with the picture before the first user's words.

    Args:
        whole: a transformers processor.
        name: the model's name.
        messages: each with role and content.
        template: the other arguments of apply_chat_template.

    Raises:
        ModelError: the processor has no chat template.
        ParameterError: the template refuses the messages, or there is no user message.
    """
    if not getattr(whole, "chat_template", None):
        raise ModelError(
            "{name} has no chat template for pictures, so a picture needs a prompt.", name=name
        )
    turns = [
        {**message, "content": [{"type": "text", "text": message.get("content") or ""}]}
        for message in messages
    ]
    first = next((message for message in turns if message["role"] == "user"), None)
    if first is None:
        raise ParameterError(
            "messages",
            Message("{n} messages", n=len(turns)),
            "a picture needs one of a user",
        )
    first["content"].insert(0, {"type": "image"})
    own = whole.chat_template
    source = own.get("default") if isinstance(own, Mapping) else own
    if source is None:
        raise ModelError("{name} has several chat templates and none that is the usual.", name=name)
    return apply_template(whole.tokenizer, source, turns, template)


def insert_picture(chat: ChatPrompt, text: str, ids: Sequence[int]) -> ChatPrompt:
    """Return a conversation with a picture, with turns transferred from the one without it.

    Args:
        chat: the conversation without the picture.
        text: the rendered text with the picture.
        ids: token ids of that text, including the picture's tokens.

    Raises:
        ParameterError: a user spelled a control token, which the processor would read as one.
    """
    if chat.literal_tokens:
        what = "with a picture they may spell none of the template's own tokens"
        raise ParameterError(
            "messages",
            Message("{n} such tokens", n=chat.literal_tokens),
            what,
        )
    return ChatPrompt(text, tuple(ids), tuple(_yield_turns(chat, ids)))


def _yield_turns(chat: ChatPrompt, ids: Sequence[int]) -> Iterator[PromptTurn]:
    """Yield the speaker of each token span. Tokens inserted for the picture are attributed to the template."""
    # The picture's tokens stand in one place. What both texts share before and after it keeps its
    # speakers.
    start = common_prefix_length(chat.ids, ids)
    after = common_prefix_length(chat.ids[start:][::-1], ids[start:][::-1])
    middle, end = len(chat.ids) - after, len(ids) - after
    for turn in chat.turns:
        if turn.start < start:
            yield PromptTurn(turn.role, turn.start, min(turn.end, start))
    if end > start:
        yield PromptTurn(TEMPLATE_ROLE, start, end)
    for turn in chat.turns:
        if turn.end > middle:
            yield PromptTurn(
                turn.role, max(turn.start, middle) + end - middle, turn.end + end - middle
            )
