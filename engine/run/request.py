"""A decode request (strategy, model, prompt, parameters, seed) and its validation.

The browser, the command line and the API all validate here and nowhere else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.declare.params import build_config, params_of
from engine.declare.special_tokens import TEXT
from engine.declare.weights import WeightsParams
from engine.errors import ParameterError, suggest_name
from engine.media import Media
from engine.messages import Message
from engine.models.chat import ChatPrompt
from engine.models.loading import LoadedModel
from engine.models.special_tokens import encode_prompt, find_special_tokens
from engine.models.text import decode_ids
from engine.run.caller_objects import check_caller_objects
from engine.run.chat_request import render_conversation
from engine.run.media_request import load_media_fields, open_media
from engine.run.method_request import RequestedMethod, parse_method_request
from engine.run.prompt_request import (
    check_integer,
    check_prompt_fields,
    check_prompt_length,
    default_special_tokens,
    find_begin_token,
    special_tokens_note,
)
from engine.run.token_texts import encode_texts
from engine.run.total_length import take_total_lengths
from engine.run.weights import drop_loaded_weights, read_request_weights, weights_from_trace
from engine.settings import SETTINGS
from engine.sources.source import Source
from engine.strategies import STRATEGIES
from engine.strategies.base import Strategy
from engine.strategies.parameter_owners import describe_owners
from engine.strategies.shared_params import NextTokenParams, SamplingParams
from engine.trace.records import Parent, Trace
from engine.trace.served_checks import require_local_run

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
        logits_processor: further logits processors of generate(), which run after those of the parameters.
        stopping_criteria: further stopping criteria of generate().
            A trace names these objects, but cannot hold them, so no code can be exported from it.
        streamer: gets the prompt's tokens and every new one, as a streamer of generate().
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
    logits_processor: Sequence[Callable[..., Any]] = ()
    stopping_criteria: Sequence[Callable[..., Any]] = ()
    streamer: Any = None


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
    literal_tokens: int = 0
    """Special tokens that its text spells and that stay text, once fitted to a model."""
    method: RequestedMethod | None = None
    """The custom generation method, None for a built-in strategy."""
    media: Media = Media()
    """The opened image and sound."""
    lengths: Mapping[str, int] = field(default_factory=dict)
    """max_length and min_length, until the prompt's length is known."""
    models: tuple[LoadedModel | Source, ...] = ()
    """Its model, and the draft model if the strategy has one; empty until their names are parsed."""

    @property
    def special_tokens(self) -> str:
        """How special tokens are read that the prompt, the messages or a parameter spells."""
        usual = default_special_tokens(chat=self.request.messages is not None)
        return self.config.special_tokens or usual


def request_from_trace(
    trace: Trace, model: RequestedModel = None, assistant: RequestedModel = None
) -> DecodeRequest:
    """Return the request that repeats a recorded run from its prompt ids.

    Args:
        trace: the run.
        model: a LoadedModel in place of the one the trace names.
        assistant: a LoadedModel in place of the draft model.

    Raises:
        EngineError: a server decoded it, or its image or sound is not in memory any more.
    """
    require_local_run(trace)
    return DecodeRequest(
        trace.strategy,
        trace.model.id if model is None else model,
        # A chat template may write today's date, so messages are not rendered again.
        input_ids=list(trace.prompt_ids),
        params={name: value for name, value in trace.config.items() if value is not None},
        seed=trace.seed,
        assistant=(trace.assistant and trace.assistant.id) if assistant is None else assistant,
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
    lengths, unused = take_total_lengths(values)
    method = None
    if strategy.loop is None:
        values, method = parse_method_request(values)
    _check_owner(strategy, values)
    config = build_config(strategy.config, values, strategy.name)
    check_caller_objects(request, strategy, config.num_return_sequences)
    weights = read_request_weights(strategy, request)
    return CheckedRequest(
        request,
        strategy,
        config,
        (*notes, *unused),
        weights,
        method=method,
        media=media,
        lengths=lengths,
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


def _check_owner(strategy: Strategy, values: Mapping[str, object]) -> None:
    """Raise ParameterError for a parameter of other strategies; the message names their tabs."""
    for name, value in values.items():
        owners = "" if name in params_of(strategy.config) else describe_owners(name)
        if owners:
            allowed = Message("{owner} has no such parameter", owner=strategy.name)
            raise ParameterError(name, value, allowed, owners)


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
    checked = _read_special_tokens(checked, loaded)
    changes, words = encode_texts(
        checked.config, loaded, checked.special_tokens, lambda: _preceding_text(checked, loaded)
    )
    config, notes = dataclasses.replace(checked.config, **changes), [*checked.notes, *words]
    config.check()  # again, as a token that was spelled has an id only now
    for name in _ID_FIELDS:
        _check_vocabulary(name, getattr(config, name, None), loaded.vocab_size)
    _check_guidance(config, loaded)
    # TopKLogitsWarper would lower it to the vocabulary without a word.
    if (top_k := getattr(config, "top_k", 0)) > loaded.vocab_size:
        notes.append(
            Message(
                "top_k = {k} is above the vocabulary of {n}: it is off.",
                k=top_k,
                n=loaded.vocab_size,
            )
        )
    if config.structured_outputs is not None:
        # Imported late: requests are checked before torch is loaded.
        from engine.run.grammar_notes import prompt_space_notes

        notes += prompt_space_notes(config, _preceding_text(checked, loaded))
    if config.stop_strings and loaded.tokenizer is None:
        raise ParameterError("stop_strings", config.stop_strings, "the model has no tokenizer")
    return dataclasses.replace(checked, config=config, notes=tuple(notes))


_ID_FIELDS = (
    *("bad_words_ids", "dry_sequence_breakers"),
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


def _read_special_tokens(checked: CheckedRequest, loaded: LoadedModel) -> CheckedRequest:
    """Return a request with rendered messages, and a note if its text spells special tokens."""
    request, reading = checked.request, checked.special_tokens
    chat = _render_chat(checked, loaded)
    # A branch's prompt is ids; only the text that it continues with was typed for it.
    typed = request.prompt if request.parent is None else request.parent.text
    if chat is not None:
        count, names = chat.literal_tokens + chat.parsed_tokens, []
    elif typed and loaded.tokenizer is not None:
        names = find_special_tokens(loaded.tokenizer, typed)
        count = len(names)
    else:
        return checked
    if not count:
        return dataclasses.replace(checked, chat=chat)
    note = special_tokens_note(reading, count, names, branch=request.parent is not None)
    return dataclasses.replace(
        checked,
        chat=chat,
        config=dataclasses.replace(checked.config, special_tokens=reading),
        literal_tokens=count if reading == TEXT else 0,
        notes=(*checked.notes, note),
    )


def _render_chat(checked: CheckedRequest, loaded: LoadedModel) -> ChatPrompt | None:
    request = checked.request
    if request.messages is None or checked.chat is not None:
        return checked.chat
    return render_conversation(request.messages, request.template, loaded, checked.special_tokens)


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

    Nothing is ever truncated silently.

    Raises:
        ParameterError: no tokens, an unknown id, too long, or text without a tokenizer.
    """
    request, chat = checked.request, _render_chat(checked, loaded)
    if chat is not None:
        ids = list(chat.ids)
    elif request.prompt is None:
        ids = list(request.input_ids or ())
    elif loaded.tokenizer is None:
        raise ParameterError("prompt", request.prompt, "the model has no tokenizer: give input_ids")
    else:
        ids = encode_prompt(loaded.tokenizer, request.prompt, checked.special_tokens)
    if request.prompt == "" and not ids:
        ids = find_begin_token(loaded)
    _check_vocabulary("input_ids", ids, loaded.vocab_size)
    given = (("messages", chat), ("prompt", request.prompt), ("input_ids", ids))
    name = next(n for n, value in given if value is not None)
    if not ids:
        raise ParameterError(
            name,
            request.prompt,
            "it has no tokens, and the model has no begin token; write something",
        )
    check_prompt_length(name, len(ids), loaded)
    return ids
