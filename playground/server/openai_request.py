"""Reads requests of OpenAI's completions and chat completions as decode requests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine import DecodeRequest
from engine.declare.params import Integer
from engine.errors import ParameterError
from engine.messages import Message
from engine.serving.prompt_batch import check_prompt_count
from engine.strategies import STRATEGIES
from engine.strategies.base import Strategy
from playground.forms import visitor_media
from playground.server.api import split_params

MAX_LOGPROBS = 20
"""Most candidates that an answer lists for each token; as many as a run records."""
_NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "tools": ([],),
    "tool_choice": ("none",),
    "functions": ([],),
    "function_call": ("none",),
    "audio": (),
    "modalities": (["text"],),
    "prediction": (),
    "web_search_options": (),
    "reasoning_effort": ("none",),
}
"""Fields without an effect here, and the values that ask for none; null is always one."""
_LABELS = ("user", "store", "metadata", "service_tier", "safety_identifier", "prompt_cache_key")
"""Fields that never change a text."""


@dataclass(frozen=True)
class OpenAIRequest:
    """A request of one or more runs.

    Attributes:
        model: the model's name as the program wrote it.
        runs: one decode request for each prompt.
        n: texts for each prompt.
        is_chat: whether it is a chat completion.
        stream: whether the answer is sent while it is written.
        include_usage: whether a stream ends with the number of tokens.
        logprobs: candidates to list for each token; None for no log-probabilities.
        stop: texts that end the answer and are not part of it.
    """

    model: str
    runs: tuple[DecodeRequest, ...]
    n: int
    is_chat: bool
    stream: bool
    include_usage: bool
    logprobs: int | None
    stop: tuple[str, ...]

    @property
    def strategy(self) -> Strategy:
        """The strategy of its runs."""
        return STRATEGIES[self.runs[0].strategy]

    @property
    def revises(self) -> bool:
        """Whether a text may change until the run ends, so that no part of it can be sent before."""
        return self.strategy.group in ("beams", "custom")


def parse_request(body: object, *, is_chat: bool) -> OpenAIRequest:
    """Return the request of a JSON body.

    Args:
        body: the parsed body.
        is_chat: whether it asks for a chat completion.

    Raises:
        ParameterError: a field is missing, wrong or not supported.
    """
    if not isinstance(body, Mapping):
        raise ParameterError("body", body, "it must be an object of names and values")
    fields = {str(name): value for name, value in body.items() if value is not None}
    for name in _LABELS:
        fields.pop(name, None)
    _check_unsupported(fields)
    model = fields.pop("model", None)
    if not isinstance(model, str):
        raise ParameterError("model", model, "it must be a name that /v1/models lists")
    name, strategy = _choose_strategy(model, fields)
    logprobs = _take_logprobs(fields, is_chat=is_chat)
    _check_logprobs(logprobs, strategy)
    stream = _take_flag(fields, "stream")
    options = fields.pop("stream_options", {})
    usage = isinstance(options, Mapping) and options.get("include_usage") is True
    prompts = [_take_messages(fields)] if is_chat else _take_prompts(fields)
    seed, assistant = fields.pop("seed", 0), fields.pop("assistant", None)
    params = _take_params(fields)
    params, weights = split_params(params)
    runs = tuple(
        DecodeRequest(
            strategy.name,
            name,
            params=params,
            seed=seed,
            assistant=assistant,
            weights=weights,
            **prompt,
        )
        for prompt in prompts
    )
    count = params.get("num_return_sequences", 1)
    stop = params.get("stop_strings", ())
    texts = (stop,) if isinstance(stop, str) else tuple(stop)
    return OpenAIRequest(model, runs, count, is_chat, stream, usage, logprobs, texts)


def _check_unsupported(fields: dict[str, Any]) -> None:
    for name, neutral in _NEUTRAL.items():
        value = fields.pop(name, None)
        if value is not None and value not in neutral:
            raise ParameterError(name, value, "this server does not support it", "leave it out")


def _choose_strategy(model: str, fields: dict[str, Any]) -> tuple[str, Strategy]:
    """Return the model's own name and the strategy: the one after a colon, else by temperature."""
    name, _, wanted = model.rpartition(":")
    named = bool(name) and wanted in STRATEGIES
    strategy = STRATEGIES[wanted] if named else STRATEGIES["sampling"]
    if fields.get("temperature") == 0 and type(fields["temperature"]) is not bool:
        strategy = strategy if named else STRATEGIES["greedy"]
        # Without draws a temperature of 0 says nothing; with draws the engine refuses it.
        if not strategy.generate_kwargs(strategy.config()).get("do_sample", False):
            del fields["temperature"]
    return (name if named else model), strategy


def _take_flag(fields: dict[str, Any], name: str) -> bool:
    value = fields.pop(name, False)
    if not isinstance(value, bool):
        raise ParameterError(name, value, "it must be true or false")
    return value


def _take_logprobs(fields: dict[str, Any], *, is_chat: bool) -> int | None:
    if not is_chat:
        return _take_count(fields, "logprobs")
    wanted, count = _take_flag(fields, "logprobs"), _take_count(fields, "top_logprobs")
    if count and not wanted:
        raise ParameterError("top_logprobs", count, "it needs logprobs = true")
    return (count or 0) if wanted else None


def _take_count(fields: dict[str, Any], name: str) -> int | None:
    value = fields.pop(name, None)
    kind = Integer(label=name, help="", minimum=0, maximum=MAX_LOGPROBS)
    return None if value is None else kind.check(name, value)


def _check_logprobs(logprobs: int | None, strategy: Strategy) -> None:
    if logprobs is not None and strategy.group in ("beams", "faster"):
        allowed = Message(
            "{strategy} does not decide its tokens one at a time", strategy=strategy.name
        )
        raise ParameterError("logprobs", logprobs, allowed, "leave it out")


def _take_prompts(fields: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the prompt fields of each run: a prompt is a text, token ids, or a list of either."""
    prompt = fields.pop("prompt", None)
    ids = isinstance(prompt, list) and prompt and all(type(item) is int for item in prompt)
    several = prompt if isinstance(prompt, list) and not ids else [prompt]
    check_prompt_count(several)
    return [{"input_ids": one} if isinstance(one, list) else {"prompt": one} for one in several]


def _take_messages(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the conversation, with the picture and the sound that its parts hold."""
    messages, template = fields.pop("messages", None), fields.pop("template", None)
    media: dict[str, Any] = {}
    if isinstance(messages, list):
        messages = [_read_message(message, media) for message in messages]
    given = {} if template is None else {"template": template}
    return {"messages": messages, **given, **visitor_media.media_from_call(media)}


def _read_message(message: object, media: dict[str, Any]) -> object:
    """Return a message with one text; its pictures and sounds are added to ``media``."""
    if not isinstance(message, Mapping):
        return message
    known = {name: value for name, value in message.items() if value is not None}
    parts = known.get("content")
    if not isinstance(parts, list):
        return known
    texts: list[str] = []
    for part in parts:
        _read_part(part, texts, media)
    return {**known, "content": "\n".join(texts)}


def _read_part(part: object, texts: list[str], media: dict[str, Any]) -> None:
    match part:
        case {"type": "text", "text": str(text)}:
            texts.append(text)
        case {"type": "image_url", "image_url": {"url": str(url)}} if "image" not in media:
            media["image"] = url
        case {"type": "input_audio", "input_audio": {"data": str(data)}} if "audio" not in media:
            media["audio"] = data
        case _:
            allowed = "it must be text, one image_url in base64 or one input_audio"
            raise ParameterError("content", part, allowed)


def _take_params(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the engine's parameters: those that OpenAI names otherwise, then all the rest."""
    params: dict[str, Any] = {}
    for own, other in (
        ("max_tokens", "max_new_tokens"),
        ("max_completion_tokens", "max_new_tokens"),
        ("stop", "stop_strings"),
        ("n", "num_return_sequences"),
    ):
        if own in fields:
            params[other] = fields.pop(own)
    if bias := fields.pop("logit_bias", None):
        params["sequence_bias"] = _read_bias(bias)
    grammar = _read_response_format(fields.pop("response_format", None))
    if grammar is not None and fields.setdefault("structured_outputs", grammar) is not grammar:
        allowed = Message("it goes without response_format, which says the same")
        raise ParameterError("structured_outputs", fields["structured_outputs"], allowed)
    return {**params, **fields}


def _read_response_format(wanted: object) -> dict[str, Any] | None:
    """Return ``structured_outputs`` of a response format, None for plain text."""
    match wanted:
        case None | {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return {"json": {"type": "object"}}
        case {"type": "json_schema", "json_schema": {"schema": schema}}:
            return {"json": schema}
    allowed = "its type must be text, json_object or json_schema with a schema"
    raise ParameterError("response_format", wanted, allowed)


def _read_bias(bias: object) -> Sequence[tuple[list[int], float]]:
    try:
        assert isinstance(bias, Mapping)
        return [([int(token_id)], value) for token_id, value in bias.items()]
    except (AssertionError, ValueError):
        allowed = "it must be an object of token ids and numbers"
        raise ParameterError("logit_bias", json.dumps(bias)[:40], allowed) from None
