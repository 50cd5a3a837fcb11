"""Validates a request's prompt: exactly one of prompt, ids and messages, or an image or a sound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.declare.special_tokens import PARSE, TEXT
from engine.errors import ParameterError
from engine.media import Media
from engine.messages import Message
from engine.models.context_check import encoder_positions
from engine.number_text import quote_token
from engine.run.chat_request import check_messages
from engine.settings import SETTINGS

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel
    from engine.run.request import DecodeRequest

_MAX_SHOWN = 4
_PROMPT_NOTES = {
    (TEXT, False): (
        "The prompt spells {n} special token of the model ({tokens}); it is read as text."
    ),
    (TEXT, True): (
        "The prompt spells {n} special tokens of the model ({tokens}); they are read as text."
    ),
    (PARSE, False): (
        "The prompt spells {n} special token of the model ({tokens}); the model reads it as "
        "this token."
    ),
    (PARSE, True): (
        "The prompt spells {n} special tokens of the model ({tokens}); the model reads them as "
        "these tokens."
    ),
}
"""(how special tokens are read, whether there are several) -> the note."""
_BRANCH_NOTES = {
    (TEXT, False): (
        "The text you added spells {n} special token of the model ({tokens}); it is read as text."
    ),
    (TEXT, True): (
        "The text you added spells {n} special tokens of the model ({tokens}); they are read as text."
    ),
    (PARSE, False): (
        "The text you added spells {n} special token of the model ({tokens}); the model reads it "
        "as this token."
    ),
    (PARSE, True): (
        "The text you added spells {n} special tokens of the model ({tokens}); the model reads "
        "them as these tokens."
    ),
}
_MESSAGES_NOTES = {
    (TEXT, False): "The messages spell {n} of the template's own tokens; it is read as text.",
    (TEXT, True): "The messages spell {n} of the template's own tokens; they are read as text.",
    (PARSE, False): (
        "The messages spell {n} of the template's own tokens; the model reads it as this token."
    ),
    (PARSE, True): (
        "The messages spell {n} of the template's own tokens; the model reads them as these tokens."
    ),
}


def check_prompt_fields(request: DecodeRequest, media: Media) -> None:
    """Check the prompt fields without a model.

    Args:
        request: a DecodeRequest.
        media: its opened image and sound.

    Raises:
        ParameterError: one sentence with parameter, value and range.
    """
    given = (request.prompt, request.input_ids, request.messages)
    count = sum(value is not None for value in given)
    if count > 1 or (count == 0 and not media):
        one = "give exactly one of prompt, input_ids and messages"
        raise ParameterError("prompt", request.prompt, one)
    if request.messages is not None:
        check_messages(request.messages, request.template)
    elif request.template:
        raise ParameterError("template", request.template, "it needs messages")
    elif request.prompt is not None:
        check_prompt(request.prompt)
    elif request.input_ids is not None:
        _check_ids(request.input_ids)


def check_prompt_length(name: str, tokens: int, loaded: LoadedModel) -> None:
    """Check that a prompt leaves room for at least one token.

    Args:
        name: the field that holds the prompt.
        tokens: length of the prompt, image tokens included.
        loaded: the model that reads it.

    Raises:
        ParameterError: it leaves no room, or exceeds this deployment's limit.
    """
    limit, context, table = (
        SETTINGS.max_prompt_tokens,
        loaded.context_length,
        encoder_positions(loaded),
    )
    if context is not None and tokens >= context:
        raise ParameterError(
            name,
            Message("{n} tokens", n=tokens),
            Message("the model's context is {n} tokens", n=context),
            "shorten it by at least one token more than the difference",
        )
    if table is not None and tokens > table:
        raise ParameterError(
            name,
            Message("{n} tokens", n=tokens),
            Message("the model's encoder reads at most {n} tokens", n=table),
        )
    if tokens > limit:
        raise ParameterError(
            name, Message("{n} tokens", n=tokens), Message("at most {n} tokens", n=limit)
        )


def default_special_tokens(*, chat: bool) -> str:
    """Return how special tokens are read unless a request says it.

    Strangers' prompts stay text on a public page, and so do messages everywhere: nobody becomes
    another speaker by writing a token. Elsewhere a prompt is read as ``tokenizer(prompt)`` does it.

    Args:
        chat: whether messages take the place of a prompt.
    """
    return TEXT if chat or SETTINGS.public else PARSE


def special_tokens_note(
    special_tokens: str, count: int, names: Sequence[str], *, branch: bool = False
) -> str:
    """Return the sentence on special tokens that a text spells.

    Args:
        special_tokens: how they are read.
        count: how many there are.
        names: those of a prompt; empty for messages.
        branch: whether the text is one that a branch continues with.
    """
    if not names:
        return Message(_MESSAGES_NOTES[special_tokens, count > 1], n=count)
    shown = [quote_token(name) for name in dict.fromkeys(names)]
    listed = ", ".join([*shown[:_MAX_SHOWN], *(["…"] if len(shown) > _MAX_SHOWN else [])])
    notes = _BRANCH_NOTES if branch else _PROMPT_NOTES
    return Message(notes[special_tokens, count > 1], n=count, tokens=listed)


def find_begin_token(loaded: LoadedModel) -> list[int]:
    """Return the token with which generate() begins without a prompt, [] if the model has none."""
    # Loading keeps the special ids of a model's generation_config and nothing else.
    begin = loaded.model.generation_config.bos_token_id
    return [] if begin is None else [int(begin)]


def check_integer(name: str, value: object, low: int, high: int) -> None:
    """Check that a value is a whole number in a range.

    Raises:
        ParameterError: it is not.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ParameterError(
            name,
            value,
            Message("it must be a whole number from {low} to {high}", low=low, high=high),
        )


def check_prompt(prompt: object) -> None:
    """Check a prompt without a model. It may be empty where the model has a begin token.

    Raises:
        ParameterError: it is no text, or too long.
    """
    limit = SETTINGS.max_prompt_chars
    if not isinstance(prompt, str):
        raise ParameterError("prompt", prompt, "it must be text")
    if len(prompt) > limit:
        raise ParameterError(
            "prompt",
            Message("{n} characters", n=len(prompt)),
            Message("at most {n} characters", n=limit),
        )
    try:
        prompt.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ParameterError(
            "prompt",
            prompt[error.start : error.start + 8],
            Message("it holds half a surrogate pair at character {n}", n=error.start),
        ) from None


def _check_ids(ids: object) -> None:
    allowed = Message("a list of 1 to {high} token ids", high=SETTINGS.max_prompt_tokens)
    if not isinstance(ids, (list, tuple)) or not 1 <= len(ids) <= SETTINGS.max_prompt_tokens:
        raise ParameterError("input_ids", ids, Message("it must be {range}", range=allowed))
    for value in ids:
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ParameterError("input_ids", value, Message("it must be {range}", range=allowed))
