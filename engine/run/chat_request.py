"""Validates the messages and chat-template arguments of a request and renders them to tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

from engine.declare.special_tokens import TEXT
from engine.errors import ParameterError
from engine.messages import Message
from engine.models import chat, templates
from engine.models.chat import ChatPrompt
from engine.settings import SETTINGS
from engine.trace.records import ROLES

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel
    from engine.models.templates import ChatMessage
    from engine.models.tokenizer_only import TokenizerOnly

_MESSAGE_KEYS = ("role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content")
_LIST_ARGUMENTS = ("tools", "documents")
_START, _CONTINUE = "add_generation_prompt", "continue_final_message"
_REFUSED_ARGUMENTS = (
    "conversation",
    "conversations",
    "messages",
    "chat_template",
    "tokenize",
    "tokenizer_kwargs",
    "sanitize_control_tokens",
    "padding",
    "truncation",
    "max_length",
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)
"""Arguments of apply_chat_template that no template reads, or that the model itself provides."""
_MAX_DEPTH = 16


def check_messages(messages: object, template: Mapping[str, object] | None) -> None:
    """Check a conversation and its template arguments without a model.

    Args:
        messages: as for apply_chat_template.
        template: extra template arguments, None for none.

    Raises:
        ParameterError: one sentence with parameter, value and range.
    """
    limit = SETTINGS.max_messages
    if not isinstance(messages, (list, tuple)) or not 1 <= len(messages) <= limit:
        got = (
            Message("{n} messages", n=len(messages))
            if isinstance(messages, (list, tuple))
            else messages
        )
        raise ParameterError(
            "messages", got, Message("it must be a list of 1 to {most} messages", most=limit)
        )
    for number, message in enumerate(messages):
        _check_message(f"messages[{number}]", message)
    if not any((message.get("content") or "").strip() for message in messages):
        raise ParameterError("messages", "no words", "at least one message must say something")
    check_template(template)
    resolve_template(messages, template)
    # Together: templates write tools and documents into the prompt as well.
    _check_length([messages, template])


def _check_message(where: str, message: object) -> None:
    if not isinstance(message, Mapping):
        raise ParameterError(where, message, "it must be an object with role and content")
    # Templates ignore unknown keys, so a mistyped one would be lost without a word.
    extra = next((key for key in message if key not in _MESSAGE_KEYS), None)
    if extra is not None:
        raise ParameterError(
            where,
            extra,
            Message("a message has {keys} and nothing else", keys=", ".join(_MESSAGE_KEYS)),
        )
    role, content, calls = (message.get(key) for key in ("role", "content", "tool_calls"))
    if role not in ROLES:
        raise ParameterError(
            f"{where}.role", role, Message("it must be one of {choices}", choices=", ".join(ROLES))
        )
    if calls is not None and (role != "assistant" or not isinstance(calls, (list, tuple))):
        raise ParameterError(f"{where}.tool_calls", calls, "it must be a list, of an assistant")
    if not isinstance(content, str) and not (content is None and calls):
        raise ParameterError(f"{where}.content", content, "it must be text")
    for key in ("name", "tool_call_id", "reasoning_content"):
        if not isinstance(message.get(key, ""), str):
            raise ParameterError(f"{where}.{key}", message[key], "it must be text")
    _check_json(where, message)


def check_template(template: object) -> None:
    """Check the arguments of a chat template.

    Raises:
        ParameterError: an argument does not belong to a template, or is not plain JSON.
    """
    if template is None:
        return
    if not isinstance(template, Mapping):
        raise ParameterError("template", template, "it must be an object of names and values")
    for name, value in template.items():
        if not isinstance(name, str) or not name.isidentifier() or iskeyword(name):
            raise ParameterError("template", name, "its names are those of a template's variables")
        if name in _REFUSED_ARGUMENTS or name.startswith(("return_", "_")):
            raise ParameterError(
                f"template.{name}", value, "it is not the template's, so leave it out"
            )
        if name in (_START, _CONTINUE) and not isinstance(value, bool):
            raise ParameterError(f"template.{name}", value, "it must be true or false")
        if name in _LIST_ARGUMENTS and not _is_list_of_objects(value):
            raise ParameterError(f"template.{name}", value, "it must be a list of objects")
    _check_json("template", template)


def _is_list_of_objects(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(item, Mapping) for item in value)


def _check_json(where: str, value: object, depth: int = 0) -> None:
    """Raise ParameterError for a value that a JSON file cannot store."""
    if depth > _MAX_DEPTH:
        raise ParameterError(where, "…", Message("it nests at most {n} levels", n=_MAX_DEPTH))
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ParameterError(where, key, "the names of an object are text")
            _check_json(where, key, depth + 1)
            _check_json(where, item, depth + 1)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _check_json(where, item, depth + 1)
    elif isinstance(value, str):
        _check_unicode(where, value)
    else:
        _check_scalar(where, value)


def _check_scalar(where: str, value: object) -> None:
    if value is not None and not isinstance(value, (bool, int, float)):
        raise ParameterError(where, value, "it must be plain JSON")
    if isinstance(value, float) and not abs(value) < float("inf"):
        raise ParameterError(where, value, "its numbers must be finite")
    if isinstance(value, int) and abs(value) >= 2**63:
        raise ParameterError(where, "a long number", "its numbers must be smaller than 2**63")


def _check_unicode(where: str, text: str) -> None:
    try:
        # Half a surrogate pair is valid in a Python string and cannot be written to any file.
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        part = text[error.start : error.start + 8]
        sentence = Message("it holds half a surrogate pair at character {n}", n=error.start)
        raise ParameterError(where, part, sentence) from None


def _check_length(given: object) -> None:
    limit = SETTINGS.max_prompt_chars
    length = sum(len(text) for text in _iter_texts(given))
    if length > limit:
        raise ParameterError(
            "messages",
            Message("{n} characters", n=length),
            Message("at most {n} characters, template included", n=limit),
        )


def _iter_texts(value: object) -> Iterator[str]:
    """Yield every string of a value, and other scalars as JSON; role names are not counted."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key != "role":
                yield from _iter_texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _iter_texts(item)
    else:
        yield value if isinstance(value, str) else json.dumps(value)


def resolve_template(
    messages: Sequence[ChatMessage], template: Mapping[str, object] | None
) -> dict[str, Any]:
    """Return the arguments of apply_chat_template, including where the answer begins.

    The answer begins a new message, or continues the last one if that is the assistant's.

    Raises:
        ParameterError: both ways to begin are requested, or neither, or there is no message to
            continue.
    """
    arguments = dict(template or {})
    prefilled = messages[-1].get("role") == "assistant"
    # As transformers' own chat pipeline: an answer that the conversation ends with is continued.
    goes_on = arguments.pop(_CONTINUE, prefilled and not arguments.get(_START, False))
    if goes_on and not prefilled:
        raise ParameterError(
            f"template.{_CONTINUE}", True, "the last message must be the assistant's"
        )
    if arguments.pop(_START, not goes_on) == goes_on:
        raise ParameterError(
            f"template.{_START}",
            goes_on,
            Message("exactly one of this and {other} is true", other=_CONTINUE),
        )
    return {**arguments, (_CONTINUE if goes_on else _START): True}


def strip_default_start(
    messages: Sequence[ChatMessage], template: Mapping[str, object]
) -> dict[str, Any]:
    """Return the template arguments that a request has to name; the default start is left out."""
    named = {n: v for n, v in template.items() if n not in (_START, _CONTINUE)}
    same = resolve_template(messages, named) == dict(template)
    return named if same else dict(template)


def render_conversation(
    messages: Sequence[ChatMessage],
    template: Mapping[str, object] | None,
    loaded: LoadedModel | TokenizerOnly,
    special_tokens: str = TEXT,
) -> ChatPrompt:
    """Return a validated conversation as text and token ids for a model.

    Args:
        messages: as for apply_chat_template.
        template: extra template arguments, None for none.
        loaded: the LoadedModel.
        special_tokens: how control tokens are read that the messages spell.

    Raises:
        ModelError: the model has no chat template.
        ParameterError: the template refuses the messages.
    """
    arguments = resolve_template(messages, template)
    plain = [dict(message) for message in messages]
    tokenizer = loaded.tokenizer
    found = templates.render_chat(tokenizer, loaded.name, plain, arguments)
    assert tokenizer is not None  # it has a template
    roles = [message["role"] for message in plain]
    return chat.encode_chat(tokenizer, found, roles, special_tokens)
