"""A decode request (strategy, model, prompt, parameters, seed) and its validation.

The browser, the command line and the API all validate here and nowhere else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.declare.params import TokenSequence, build_config, params_of
from engine.declare.weights import WeightsParams
from engine.errors import ParameterError, suggest_name
from engine.media import Media
from engine.messages import Message
from engine.models.chat import ChatPrompt
from engine.models.loading import LoadedModel
from engine.models.spellings import ban_message, find_spellings
from engine.models.text import decode_ids, encode_after, encode_inside, tokenize_text
from engine.run.chat_request import render_conversation
from engine.run.media_request import load_media_fields, open_media
from engine.run.method_request import RequestedMethod, parse_method_request
from engine.run.prompt_request import check_integer, check_prompt_fields, check_prompt_length
from engine.run.weights import drop_loaded_weights, read_request_weights, weights_from_trace
from engine.settings import SETTINGS
from engine.sources.source import Source
from engine.strategies import STRATEGIES
from engine.strategies.base import Strategy
from engine.strategies.shared_params import NextTokenParams, SamplingParams
from engine.trace.records import Parent, Trace

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel
    from engine.models.templates import ChatMessage
    from engine.run.weights import RequestedModel

MAX_SEED = 2**63 - 1
_SAMPLING = params_of(SamplingParams)


@dataclass(frozen=True)
class DecodeRequest:
    """A run to decode.

    Attributes:
        strategy: a name of STRATEGIES.
        model: catalogue name, hub id, folder or LoadedModel; None for the strategy's default.
        prompt: text; feeds the encoder of an encoder-decoder model.
        input_ids: token ids instead of text.
        messages: a conversation instead of text, each message with role and content; exactly one of
            the three is given.
        template: other arguments of apply_chat_template, such as enable_thinking or tools.
        params: GenerationConfig names and values, max_new_tokens among them.
        seed: 0 to 2**63 - 1.
        assistant: draft model if the strategy needs one; None for its default.
        top_candidates: candidates recorded per step, 1 to 50.
        weights: precision and placement of the models: names and values of declare.weights, those
            of the draft model with the prefix ``assistant_``; not for a LoadedModel.
        parent: the run whose text input_ids continues, else None.
        image: an image: a path, bytes, a PIL image or ``example:NAME``.
        audio: a sound: a path, bytes, (float samples, rate in Hz) or ``example:NAME``. With an
            image or a sound, prompt, input_ids and messages may all be left out.
        speech: options of Whisper's generate(): language, task, return_timestamps.
    """

    strategy: str
    model: RequestedModel = None
    prompt: str | None = None
    input_ids: Sequence[int] | None = None
    params: Mapping[str, object] = field(default_factory=dict)
    seed: int = 0
    assistant: RequestedModel = None
    top_candidates: int = 20
    parent: Parent | None = None
    weights: Mapping[str, object] = field(default_factory=dict)
    messages: Sequence[ChatMessage] | None = None
    template: Mapping[str, object] | None = None
    image: object = None
    audio: object = None
    speech: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class CheckedRequest:
    """A request whose values are all in range, as far as can be checked without the model."""

    request: DecodeRequest
    strategy: Strategy
    config: Any
    notes: tuple[str, ...]
    weights: tuple[WeightsParams, WeightsParams] = (WeightsParams(), WeightsParams())
    """Weights settings of the model and the draft model."""
    chat: ChatPrompt | None = None
    """The rendered messages, once fitted to a model."""
    method: RequestedMethod | None = None
    """The custom generation method, None for a built-in strategy."""
    media: Media = Media()
    """The opened image and sound."""
    models: tuple[LoadedModel | Source, ...] = ()
    """Its model, and the draft model if the strategy has one; empty until their names are parsed."""


def request_from_trace(
    trace: Trace, model: RequestedModel = None, assistant: RequestedModel = None
) -> DecodeRequest:
    """Return the request that repeats a recorded run from its prompt ids.

    Messages are not rendered again: a chat template may write today's date.

    Args:
        trace: the run.
        model: a LoadedModel in place of the one the trace names.
        assistant: a LoadedModel in place of the draft model.

    Raises:
        EngineError: its image or sound is not in memory any more.
    """
    named = trace.assistant.id if trace.assistant else None
    return DecodeRequest(
        trace.strategy,
        trace.model.id if model is None else model,
        input_ids=list(trace.prompt_ids),
        params={name: value for name, value in trace.config.items() if value is not None},
        seed=trace.seed,
        assistant=named if assistant is None else assistant,
        top_candidates=1,
        weights=drop_loaded_weights(weights_from_trace(trace), model, assistant),
        **load_media_fields(trace),
    )


def check_request(request: DecodeRequest) -> CheckedRequest:
    """Validate a request.

    Raises:
        ParameterError: one sentence with parameter, value and range.
    """
    strategy = _get_strategy(request.strategy)
    media = open_media(request)
    check_prompt_fields(request, media)
    check_integer("seed", request.seed, 0, MAX_SEED)
    check_integer("top_candidates", request.top_candidates, 1, SETTINGS.max_top_candidates)
    if not isinstance(request.params, Mapping):
        raise ParameterError("params", request.params, "it must be an object of names and values")
    values, notes = _split_unused_values(strategy, dict(request.params))
    method = None
    if strategy.loop is None:
        values, method = parse_method_request(values)
    config = build_config(strategy.config, values, strategy.name)
    weights = read_request_weights(strategy, request)
    return CheckedRequest(
        request, strategy, config, tuple(notes), weights, method=method, media=media
    )


def _get_strategy(name: object) -> Strategy:
    if isinstance(name, str) and name in STRATEGIES:
        return STRATEGIES[name]
    raise ParameterError(
        "strategy",
        name,
        Message("it must be one of {choices}", choices=", ".join(STRATEGIES)),
        suggest_name(name, STRATEGIES) or "",
    )


def _split_unused_values(
    strategy: Strategy, values: dict[str, object]
) -> tuple[dict[str, object], list[str]]:
    """Split off values that the strategy ignores but a user may have left on.

    Returns the other values and a note for each ignored one.
    """
    notes = []
    known = params_of(strategy.config)
    if "do_sample" in values and "do_sample" not in known:
        _check_do_sample(strategy, values.pop("do_sample"))
    for name in [n for n in values if n in _SAMPLING and n not in known]:
        _SAMPLING[name].check(name, values.pop(name))
        notes.append(strategy.describe_missing_filter(name))
    return values, notes


def _check_do_sample(strategy: Strategy, value: object) -> None:
    if not isinstance(value, bool):
        raise ParameterError("do_sample", value, "it must be true or false")
    defaults = strategy.config()
    if value != strategy.generate_kwargs(defaults).get("do_sample", False):
        fixed = str(not value).lower()
        raise ParameterError(
            "do_sample",
            value,
            Message(
                "{strategy} always has do_sample = {fixed}", strategy=strategy.name, fixed=fixed
            ),
        )


def fit_to_model(checked: CheckedRequest, loaded: LoadedModel) -> CheckedRequest:
    """Convert texts to ids and check every id and length against the model.

    Raises:
        ParameterError: an id outside the vocabulary, or a value the model cannot honour.
    """
    checked = _render_chat(checked, loaded)
    config, notes = checked.config, list(checked.notes)
    changes: dict[str, Any] = {}
    if config.bad_words_ids:
        changes["bad_words_ids"], banned = _expand_banned_texts(config.bad_words_ids, loaded)
        notes += banned
    for name in ("force_words_ids", "prefix_allowed_tokens_fn"):
        value = getattr(config, name, None)
        if value is not None and not callable(value):
            start = _preceding_text(checked, loaded) if name == "prefix_allowed_tokens_fn" else None
            changes[name] = tuple(_to_ids(name, entry, loaded, start) for entry in value)
    if getattr(config, "sequence_bias", None):
        changes["sequence_bias"] = tuple(
            (_to_ids("sequence_bias", ids, loaded), bias) for ids, bias in config.sequence_bias
        )
    if getattr(config, "negative_prompt", None) is not None:
        changes["negative_prompt_ids"] = tuple(
            _encode(config.negative_prompt, loaded, "negative_prompt", "")
        )
    config = dataclasses.replace(config, **changes)
    for name in _ID_FIELDS:
        _check_vocabulary(name, getattr(config, name, None), loaded.vocab_size)
    _check_guidance(config, loaded)
    top_k = getattr(config, "top_k", 0)
    if top_k > loaded.vocab_size:
        notes.append(
            Message(
                "top_k = {k} is above the vocabulary of {n}: it is off.",
                k=top_k,
                n=loaded.vocab_size,
            )
        )
    if config.stop_strings and loaded.tokenizer is None:
        raise ParameterError("stop_strings", config.stop_strings, "the model has no tokenizer")
    return dataclasses.replace(checked, config=config, notes=tuple(notes))


_ID_FIELDS = (
    "bad_words_ids",
    "sequence_bias",
    "suppress_tokens",
    "begin_suppress_tokens",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "eos_token_id",
    "negative_prompt_ids",
    "force_words_ids",
    "prefix_allowed_tokens_fn",
)


def _expand_banned_texts(
    entries: Sequence[TokenSequence], loaded: LoadedModel
) -> tuple[tuple[TokenSequence, ...], list[str]]:
    """Return the entries with every spelling of their texts, and a note per text."""
    ids, notes = [], []
    for entry in entries:
        if not isinstance(entry, str):
            ids.append(entry)
            continue
        if loaded.tokenizer is None:
            raise _no_tokenizer_error("bad_words_ids", entry)
        ways = find_spellings(entry, loaded.tokenizer, loaded.pieces)
        notes.append(ban_message(entry, ways, loaded.pieces))
        ids += ways
    most = SETTINGS.max_banned_sequences
    if len(set(ids)) > most:
        raise ParameterError(
            "bad_words_ids",
            list(entries),
            Message(
                "its texts have {n} spellings, and at most {most} can be banned",
                n=len(set(ids)),
                most=most,
            ),
            "give fewer or shorter texts",
        )
    return tuple(dict.fromkeys(ids)), notes


def _to_ids(name: str, entry: Any, loaded: LoadedModel, before: str | None = None) -> Any:
    """Return an entry with texts as ids; ``before`` is the preceding text, None if unknown."""
    if isinstance(entry, str):
        return tuple(_encode(entry, loaded, name, before))
    if entry and isinstance(entry[0], (tuple, str)):
        return tuple(_to_ids(name, item, loaded, before) for item in entry)
    return entry


def _no_tokenizer_error(name: str, text: str) -> ParameterError:
    return ParameterError(name, text, "the model has no tokenizer, so it must be token ids")


def _encode(text: str, loaded: LoadedModel, name: str, before: str | None) -> list[int]:
    if loaded.tokenizer is None:
        raise _no_tokenizer_error(name, text)
    if before is None:
        return encode_inside(loaded.tokenizer, text)
    return encode_after(loaded.tokenizer, before, text)


def _render_chat(checked: CheckedRequest, loaded: LoadedModel) -> CheckedRequest:
    """Return a request with rendered messages, and a note if they spell control tokens."""
    request = checked.request
    if request.messages is None or checked.chat is not None:
        return checked
    chat = render_conversation(request.messages, request.template, loaded)
    notes = checked.notes
    if chat.literal_tokens:
        count = chat.literal_tokens
        notes = (
            *notes,
            Message(
                "The messages spell {n} of the template's own tokens; they are read as text."
                if count > 1
                else "The messages spell {n} of the template's own tokens; it is read as text.",
                n=count,
            ),
        )
    return dataclasses.replace(checked, chat=chat, notes=notes)


def _preceding_text(checked: CheckedRequest, loaded: LoadedModel) -> str:
    """Return the text that an output continues, "" for an encoder-decoder model."""
    request = checked.request
    if loaded.is_encoder_decoder:
        return ""
    if checked.chat is not None:
        return checked.chat.text
    if request.prompt is not None or loaded.tokenizer is None:
        return request.prompt or ""
    return decode_ids(loaded.tokenizer, request.input_ids or ())


def _check_vocabulary(name: str, value: object, vocab_size: int) -> None:
    for token_id in _flatten(value):
        if isinstance(token_id, int) and token_id >= vocab_size:
            raise ParameterError(
                name,
                token_id,
                Message("token ids of this model go from 0 to {last}", last=vocab_size - 1),
            )


def _flatten(value: object) -> Iterator[object]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _flatten(item)
    else:
        yield value


def _check_guidance(config: NextTokenParams, loaded: LoadedModel) -> None:
    scale = getattr(config, "guidance_scale", None)
    if config.negative_prompt_ids and scale in (None, 1.0):
        raise ParameterError(
            "guidance_scale", scale, "a negative prompt needs a guidance_scale other than 1"
        )
    if scale not in (None, 1.0) and loaded.is_encoder_decoder:
        raise ParameterError(
            "guidance_scale", scale, "guidance works with decoder-only models, so it must be off"
        )


def tokenize_prompt(checked: CheckedRequest, loaded: LoadedModel) -> list[int]:
    """Return the prompt ids, checked against the model's vocabulary and context.

    Text that spells a special token stays literal text; nothing is ever truncated silently.

    Raises:
        ParameterError: no tokens, an unknown id, too long, or text without a tokenizer.
    """
    request, chat = checked.request, _render_chat(checked, loaded).chat
    if chat is not None:
        ids = list(chat.ids)
    elif request.prompt is None:
        ids = list(request.input_ids or ())
    elif loaded.tokenizer is None:
        raise ParameterError("prompt", request.prompt, "the model has no tokenizer: give input_ids")
    else:
        # Spelled special tokens stay text: a visitor must not end or steer the prompt with them.
        ids = tokenize_text(loaded.tokenizer, request.prompt, split_special_tokens=True)[
            "input_ids"
        ]
    _check_vocabulary("input_ids", ids, loaded.vocab_size)
    given = (("messages", chat), ("prompt", request.prompt), ("input_ids", ids))
    name = next(n for n, value in given if value is not None)
    if not ids:
        raise ParameterError(name, request.prompt, "it has no tokens; write something")
    check_prompt_length(name, len(ids), loaded.context_length)
    return ids
