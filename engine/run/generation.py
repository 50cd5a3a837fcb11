"""Builds the arguments of transformers' generate() from a validated strategy config."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
import transformers

from engine.declare.config import config_to_dict
from engine.errors import ParameterError
from engine.loops.forward import make_empty_cache
from engine.loops.prefix_constraint import make_prefix_allowed_tokens_fn
from engine.loops.thinking import make_thinking_processor
from engine.messages import Message
from engine.models.structured_outputs import make_grammar_processor
from engine.processors import FILTERS, PENALTIES, SAMPLING
from engine.processors.filter import Filter
from engine.processors.thinking_budget import limits_thinking
from engine.strategies.shared_params import NextTokenParams

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from engine.grammar.processor import GrammarLogitsProcessor
    from engine.models.loading import LoadedModel
    from engine.processors.thinking_budget import ThinkingBudgetLogitsProcessor
    from engine.trace.records import Parent

NOT_IN_CONFIG = (
    "prefix_allowed_tokens_fn",
    "negative_prompt",
    "negative_prompt_ids",
    "stop_strings",
    # These choose modes that left transformers; our loops are given them directly.
    "num_beam_groups",
    "diversity_penalty",
    "force_words_ids",
)


def generation_config(
    config: NextTokenParams,
    select: Mapping[str, object],
    loaded: LoadedModel,
    *,
    use_cache: bool = True,
) -> Any:
    """Build a GenerationConfig that sets every field, so that no model default applies.

    Args:
        config: a strategy's config.
        select: fields that choose the mode (do_sample, num_beams, …).
        loaded: the model, for its special token ids.
        use_cache: keep keys, values and states between steps.
    """
    from transformers import GenerationConfig

    return GenerationConfig(**generation_values(config, select, loaded, use_cache=use_cache))


def generation_values(
    config: NextTokenParams,
    select: Mapping[str, object],
    loaded: LoadedModel,
    *,
    use_cache: bool = True,
) -> dict[str, Any]:
    """Return the fields of that GenerationConfig; same arguments as ``generation_config``."""
    values = config_values(config)
    eos = values.get("eos_token_id") or list(loaded.eos_token_ids) or None
    own = loaded.model.generation_config
    # Without a padding token generate() takes the first end token, too, but warns about it.
    pad = own.pad_token_id if own.pad_token_id is not None else (eos[0] if eos else None)
    values |= {"eos_token_id": eos, "pad_token_id": pad, "use_cache": use_cache}
    # The mode comes last: what a strategy selects overrides a parameter of the same name.
    return {**without_samplers(values, config, select), **select}


def config_values(config: DataclassInstance) -> dict[str, Any]:
    """Return the GenerationConfig fields that a strategy's config sets, as plain values."""
    from transformers import GenerationConfig

    # GenerationConfig keeps unknown names as attributes, without an error, so only known ones are passed on.
    known = GenerationConfig().__dict__
    return {
        name: value
        for name, value in config_to_dict(config).items()
        if name in known and name not in NOT_IN_CONFIG and value is not None
    }


def own_filters(
    config: NextTokenParams, select: Mapping[str, Any], eos_token_ids: Sequence[int]
) -> list[tuple[Filter, tuple[Any, ...]]]:
    """Return the filters that a run gives to generate(), in order, each with the arguments of ``build``.

    These are the filters that generate() does not build, and its own samplers where a filter comes
    after them.

    Args:
        config: a strategy's config.
        select: fields that choose the mode (do_sample, num_beams, …).
        eos_token_ids: ids that end the text unless the config names others.
    """
    # generate() builds its own filters under the same condition.
    known = (*PENALTIES, *SAMPLING) if select.get("do_sample") else PENALTIES
    # As in transformers: beams need one token besides those that end the text.
    ends = config.eos_token_id or eos_token_ids
    kept = 1 if (select.get("num_beams") or 1) == 1 else max(len(ends), 1) + 1
    more = () if kept == 1 else (kept,)
    values = [(one, getattr(config, one.parameter, one.off)) for one in known if one.build]
    found = [
        (one, (value, *([getattr(config, name) for name in one.settings] or more)))
        for one, value in values
        if value != one.off
    ]
    last = [pair for pair in found if pair[0].last]
    first = [pair for pair in found if not pair[0].last]
    return [*first, *(_own_samplers(config) if last else []), *last]


_SAMPLERS = ("Temperature", "TopH", "TopK", "TopP", "MinP", "Typical", "Epsilon", "Eta")
"""The samplers of generate(), in its order."""


def _own_samplers(config: NextTokenParams) -> list[tuple[Filter, tuple[Any, ...]]]:
    """Return the samplers that generate() would build, each with its value."""
    # A strategy that draws in its own way may have none of them.
    samplers = map(FILTERS.__getitem__, _SAMPLERS)
    found = ((one, getattr(config, one.parameter, one.off)) for one in samplers)
    return [(one, (value,)) for one, value in found if value not in (None, one.off)]


def without_samplers(
    values: Mapping[str, Any], config: NextTokenParams, select: Mapping[str, Any]
) -> dict[str, Any]:
    """Return fields of a GenerationConfig without the samplers that ``own_filters`` has in their place."""
    # generate() puts the processors of a caller before its samplers, so these become processors, too.
    if not any(one.last for one, _ in own_filters(config, select, ())):
        return dict(values)
    own = {FILTERS[name].parameter for name in _SAMPLERS}
    # Without the field generate() would keep the 50 best tokens.
    return {**{name: value for name, value in values.items() if name not in own}, "top_k": 0}


def filter_class(one: Filter) -> Any:
    """Return the class of a filter of ``own_filters``: this project's, or that of transformers."""
    return one.build or getattr(transformers, f"{one.name}LogitsWarper")


def grammar_processors(
    config: NextTokenParams,
    loaded: LoadedModel,
    prompt_ids: Sequence[int],
    parent: Parent | None = None,
) -> list[GrammarLogitsProcessor]:
    """Return the processor of ``structured_outputs``, none if it is off.

    Args:
        config: a strategy's config.
        loaded: the model.
        prompt_ids: ids of the prompt.
        parent: the run whose text is continued; the grammar is that of the whole text.

    Raises:
        ParameterError: the grammar cannot be used, or not with this model or this text.
    """
    if config.structured_outputs is None:
        return []
    ends = config.eos_token_id or loaded.eos_token_ids
    written = 0 if parent is None else parent.written
    return [make_grammar_processor(config.structured_outputs, loaded, prompt_ids, ends, written)]


def thinking_processors(
    config: NextTokenParams,
    loaded: LoadedModel,
    prompt_ids: Sequence[int],
    parent: Parent | None = None,
) -> list[ThinkingBudgetLogitsProcessor]:
    """Return the processor of the thinking budget, none if it is off; arguments as for a grammar.

    Raises:
        ParameterError: the model has no thinking section, or the message contains one of its marks.
    """
    written = 0 if parent is None else parent.written
    found = make_thinking_processor(config, loaded, prompt_ids, written)
    return [] if found is None else [found]


def reads_texts(config: NextTokenParams) -> bool:
    """Return whether a config has a filter that reads the text of tokens, so that it needs a tokenizer."""
    return config.structured_outputs is not None or limits_thinking(config)


def text_processors(
    config: NextTokenParams,
    loaded: LoadedModel,
    prompt_ids: Sequence[int],
    parent: Parent | None = None,
) -> list[Any]:
    """Return the processors of the filters that read texts; arguments and errors as for each of them."""
    arguments = (config, loaded, prompt_ids, parent)
    return [*grammar_processors(*arguments), *thinking_processors(*arguments)]


def processors_argument(
    rules: Sequence[Any],
    config: NextTokenParams,
    select: Mapping[str, Any],
    eos_token_ids: Sequence[int],
) -> dict[str, Any]:
    """Return generate()'s argument ``logits_processor``, empty if generate() builds all processors.

    Args:
        rules: processors that the model itself adds, and those of a grammar and a thinking budget.
        config: see ``own_filters``, whose processors follow; as the others.
        select: fields that choose the mode.
        eos_token_ids: ids that end the text unless the config names others.
    """
    found = own_filters(config, select, eos_token_ids)
    built = [filter_class(one)(*values) for one, values in found]
    added = [*rules, *built]
    return {"logits_processor": transformers.LogitsProcessorList(added)} if added else {}


def stop_criteria(config: NextTokenParams, loaded: LoadedModel) -> list[Any]:
    """Return the stopping criteria generate() does not build for a custom loop: stop strings.

    Raises:
        ParameterError: transformers cannot compare stop strings with the model's tokens.
    """
    from transformers import StopStringCriteria

    if not config.stop_strings:
        return []
    assert loaded.tokenizer is not None  # fit_to_model refuses stop strings without one
    with loaded.device:  # The criterion creates its lookup table on the default device.
        try:
            return [StopStringCriteria(loaded.tokenizer, list(config.stop_strings))]
        except Exception as error:
            # It writes every token after "abcdef", which not every tokenizer can spell.
            why = Message(
                "transformers cannot compare them with the tokens of {name} ({kind}), "
                "so the text must end by other means",
                name=loaded.name,
                kind=type(error).__name__,
            )
            raise ParameterError("stop_strings", list(config.stop_strings), why) from error


def generate_inputs(
    config: NextTokenParams,
    loaded: LoadedModel,
    rows: int,
    prompt_length: int,
    *,
    use_cache: bool = True,
) -> dict[str, Any]:
    """Return the remaining keyword arguments of generate().

    Args:
        config: a strategy's config.
        loaded: the model.
        rows: rows of the batch that generate() builds (beams or returned sequences).
        prompt_length: number of prompt ids.
        use_cache: as in the GenerationConfig.
    """
    kwargs: dict[str, Any] = {}
    if config.negative_prompt_ids:
        ids = torch.tensor([list(config.negative_prompt_ids)], device=loaded.device)
        # Guidance appends each new token to the negative prompt's rows, so it needs one per row.
        kwargs["negative_prompt_ids"] = ids.expand(rows, -1)
    allowed = config.prefix_allowed_tokens_fn
    if allowed is not None:
        # An encoder-decoder's output follows its decoder's start token, not the prompt.
        start = 1 if loaded.is_encoder_decoder else prompt_length
        eos = config.eos_token_id or loaded.eos_token_ids
        kwargs["prefix_allowed_tokens_fn"] = (
            wrap_prefix_fn(allowed, loaded.vocab_size)
            if callable(allowed)
            else make_prefix_allowed_tokens_fn(allowed, start, eos, loaded.vocab_size)
        )
    if loaded.model.config.is_encoder_decoder and use_cache:
        from transformers import DynamicCache, EncoderDecoderCache

        # generate() would size the cache by the encoder's depth, which may be the smaller one.
        kwargs["past_key_values"] = EncoderDecoderCache(DynamicCache(), DynamicCache())
    elif loaded.capabilities.names_encoder_depth and use_cache:
        kwargs["past_key_values"] = make_empty_cache(loaded.model)
    return kwargs


def wrap_prefix_fn(allowed: Callable[..., Any], vocab_size: int) -> Callable[..., Any]:
    """Return a user's prefix_allowed_tokens_fn with its results validated.

    Raises:
        ParameterError: raised by the returned function for a result that is not one or more ids of
            the vocabulary.
    """

    def checked_fn(batch_id: int, ids: torch.Tensor) -> list[int]:
        try:
            answer = allowed(batch_id, ids)
        except Exception as error:  # a caller's function may raise anything
            why = Message("it raised {kind}", kind=type(error).__name__)
            raise ParameterError("prefix_allowed_tokens_fn", allowed, why) from error
        values = answer.tolist() if hasattr(answer, "tolist") else answer
        listed: list[Any] = list(values) if isinstance(values, (list, tuple, set, range)) else []
        if not listed or not all(isinstance(i, int) and 0 <= i < vocab_size for i in listed):
            raise ParameterError(
                "prefix_allowed_tokens_fn",
                answer,
                Message(
                    "for every text it is asked about it must give 1 or more ids from 0 to {last}",
                    last=vocab_size - 1,
                ),
            )
        return listed

    return checked_fn
