"""The logits processors of a run, rebuilt without its model.

transformers' generate() builds them from the configuration of the run. A stub model of almost no
weights supplies what generate() reads from a model: vocabulary, device, special ids, one stack or
two. So the real model need not be in memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
import transformers

from engine.declare.params import build_config, params_of
from engine.errors import EngineError, ParameterError
from engine.inspection.logits_cache import CachedRun
from engine.loops.recorder import Recorder, display_name
from engine.loops.watermark import watermark_loop
from engine.messages import Message
from engine.models.chat import chat_from_ids
from engine.models.loading import LoadedModel, find_recorded_model
from engine.models.meta_model import CONSTRUCTION_LOCK
from engine.models.model_types import Model, Processors
from engine.models.readers import AUDIO
from engine.processors import FILTERS
from engine.run.generation import (
    generate_inputs,
    generation_config,
    grammar_processors,
    processors_argument,
    reads_texts,
    text_processors,
)
from engine.run.request import CheckedRequest, DecodeRequest, fit_to_model
from engine.strategies.base import Context

# Longer than any text.
_MAX_POSITIONS = 1 << 24
NEEDS_RERUN = {
    **{name: one.needs_rerun for one in FILTERS.values() if one.needs_rerun for name in one.params},
    "dola_layers": "other layers are only known where the model runs",
    "max_new_tokens": "it changes no distribution, only where the text ends",
    "max_time": "it changes no distribution, only where the text ends",
    "stop_strings": "it changes no distribution, only where the text ends",
    "eos_token_id": "it also changes where the text ends",
    "num_return_sequences": "other rows are drawn with other random numbers",
    "special_tokens": "it changes which tokens the prompt has",
    "z_threshold": "it changes no distribution, only how the text is judged",
    "ignore_repeated_ngrams": "it changes no distribution, only how the text is judged",
}
"""Parameters that a what-if analysis cannot change, each with the reason."""
OFF_VALUES: Mapping[str, tuple[str, Any]] = {
    **{name: (one.parameter, one.off) for name, one in FILTERS.items() if not one.needs_rerun},
    "GreenList": ("bias", 0.0),
}
"""Display name of a processor -> its parameter, and the value that removes it."""


def changeable_parameters(config_class: type) -> tuple[str, ...]:
    """Return the parameters of a strategy that a what-if can change, in declaration order."""
    return tuple(name for name in params_of(config_class) if name not in NEEDS_RERUN)


def build_changed_config(run: CachedRun, params: Mapping[str, object]) -> Any:
    """Return a run's config with other values, validated like a request's.

    Args:
        run: the run.
        params: names and raw values.

    Raises:
        ParameterError: one sentence with parameter, value and range, or why it cannot be changed.
    """
    known = params_of(run.strategy.config)
    for name, value in params.items():
        if name in NEEDS_RERUN and name in known:
            raise _needs_rerun_error(name, value)
    old = {name: getattr(run.config, name) for name in known}
    config = build_config(run.strategy.config, {**old, **params}, run.strategy.name)
    loaded = run.get_model() or _reading_model(run, config)
    ids = list(run.header.prompt_ids)
    request = DecodeRequest(run.strategy.name, prompt=run.header.prompt, input_ids=ids)
    chat = None if run.header.messages is None else chat_from_ids(loaded.tokenizer, ids)
    checked = fit_to_model(CheckedRequest(request, run.strategy, config, (), chat=chat), loaded)
    if run.strategy.loop is watermark_loop:
        prompt = torch.tensor([run.header.prompt_ids])
        context = Context(checked.config, loaded, None, prompt, Recorder(), torch.Generator())
        run.strategy.prepare(context)
    return checked.config


def _needs_rerun_error(name: str, value: object) -> ParameterError:
    why = Message(
        "it cannot be asked about without running again: {reason}", reason=NEEDS_RERUN[name]
    )
    return ParameterError(name, value, why)


def build_processors(run: CachedRun, config: Any) -> tuple[list[Any], bool]:
    """Return a run's processors as generate() builds them, and whether tokens are sampled.

    Args:
        run: the run.
        config: the config of its strategy, see ``build_changed_config``.

    Raises:
        ParameterError: a filter that needs the model is on.
    """
    if run.strategy.one_by_one:
        config = dataclasses.replace(config, num_return_sequences=1)
    loaded, found = build_stub_model(run), []
    select = run.strategy.generate_kwargs(config)

    def capture(
        model: Model,
        input_ids: torch.Tensor,
        logits_processor: Processors,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        del model, args, kwargs
        found.extend(logits_processor)
        return input_ids

    # generate() hands its finished list to the custom loop, which returns at once: no pass runs.
    prompt = torch.tensor([run.header.prompt_ids], device=loaded.device)
    loaded.model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        generation_config=generation_config(config, select, loaded),
        custom_generate=capture,
        **processors_argument(_rules(run, config), config, select, loaded.eos_token_ids),
        **generate_inputs(config, loaded, config.num_return_sequences, prompt.shape[1]),
    )
    for one in (FILTERS.get(display_name(processor)) for processor in found):
        if one is not None and one.needs_rerun:
            raise _needs_rerun_error(one.parameter, getattr(config, one.parameter))
    return found, bool(select["do_sample"])


def build_constraints(run: CachedRun, loaded: LoadedModel) -> list[Any]:
    """Return the run's processors that allow some tokens only, for a batch of one row."""
    config, header = run.config, run.header
    found: list[Any] = [*grammar_processors(config, loaded, header.prompt_ids, header.parent)]
    if config.prefix_allowed_tokens_fn is not None:
        inputs = generate_inputs(config, loaded, 1, len(header.prompt_ids))
        allowed = inputs["prefix_allowed_tokens_fn"]
        found.append(transformers.PrefixConstrainedLogitsProcessor(allowed, 1))
    return found


def _rules(run: CachedRun, config: Any) -> list[Any]:
    return [*_model_rules(run, config), *_own_rules(run, config)]


def _own_rules(run: CachedRun, config: Any) -> list[Any]:
    """Return the processors of the run's grammar and thinking budget, if it has them.

    Raises:
        EngineError: the model, whose tokenizer it needs, is not in memory.
    """
    if not reads_texts(config):
        return []
    header = run.header
    return text_processors(config, _tokenizing_model(run), header.prompt_ids, header.parent)


def _reading_model(run: CachedRun, config: Any) -> LoadedModel:
    """Return a model that can read the texts of a config; a stub where there are none."""
    if reads_texts(config):
        return _tokenizing_model(run)
    # The marks of DRY are texts until a run has begun.
    named = config.dry_multiplier and config.dry_sequence_breakers is None
    return (find_recorded_model(run.header.model) if named else None) or build_stub_model(run)


def _tokenizing_model(run: CachedRun) -> LoadedModel:
    loaded = run.get_model() or find_recorded_model(run.header.model)
    if loaded is None:
        raise EngineError(
            "The model of this run is not in memory, and its settings need the model's tokenizer."
        )
    return loaded


def _model_rules(run: CachedRun, config: Any) -> list[Any]:
    """Return the processors that the run's model itself adds; see ``MediaReader.logits_processors``.

    Raises:
        EngineError: the model may have some but is not in memory.
    """
    loaded = run.get_model() or find_recorded_model(run.header.model)
    if not any(one.kind == AUDIO for one in run.header.media):
        return []
    if loaded is None or loaded.reader is None:
        raise EngineError(
            "The speech model of this run is not in memory, and it has its own rules."
        )
    return loaded.reader.logits_processors(config, run.header.prompt_ids, run.header.speech)


def build_stub_model(run: CachedRun) -> LoadedModel:
    """Return a stub model with the properties of the run's model that processors use."""
    about, ends = run.header.model, run.header.eos_token_ids
    return _stub_model(about.vocab_size, processor_device(run), about.is_encoder_decoder, ends)


def processor_device(run: CachedRun) -> str:
    """Return the run's device, or the CPU if this machine has no such device."""
    own = run.header.model.device
    there = {"cuda": torch.cuda.is_available, "mps": torch.backends.mps.is_available}
    return own if own in there and there[own]() else "cpu"


@lru_cache(maxsize=8)
def _stub_model(
    vocab: int, device: str, encoder_decoder: bool, ends: tuple[int, ...]
) -> LoadedModel:

    ids: dict[str, Any] = {"bos_token_id": 0, "eos_token_id": list(ends) or None, "pad_token_id": 0}
    with CONSTRUCTION_LOCK:
        if encoder_decoder:
            sizes = {"d_model": 2, "d_kv": 2, "d_ff": 2, "num_layers": 1, "num_heads": 1}
            ids["decoder_start_token_id"] = 0
            seq2seq = transformers.T5Config(vocab_size=vocab, **sizes, **ids)
            model: Any = transformers.T5ForConditionalGeneration(seq2seq)
        else:
            sizes = {"hidden_size": 2, "intermediate_size": 2, "num_hidden_layers": 1}
            heads = {"num_attention_heads": 1, "max_position_embeddings": _MAX_POSITIONS}
            config = transformers.LlamaConfig(vocab_size=vocab, **sizes, **heads, **ids)
            model = transformers.LlamaForCausalLM(config)
    # The name appears in error sentences.
    return LoadedModel(model.to(device).eval(), None, "the model of the run")
