"""Prepares a run before decoding: models, values fitted to them, and prompt ids."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from engine.declare.weights import TORCH, WeightsParams
from engine.errors import Cancelled, ModelError
from engine.messages import Message
from engine.model_code import ModelWork
from engine.models import memory_budget
from engine.models.context_check import decoder_positions
from engine.models.loading import LoadedModel, get_cached_model, load_source
from engine.models.model_resolver import resolve_model
from engine.models.model_types import Model
from engine.models.openvino.graph_store import ensure_graph, find_graph
from engine.run import media_request
from engine.run.generation import grammar_processors, thinking_processors
from engine.run.method_request import RequestedMethod, check_model_compatible, fetch_method
from engine.run.rate import TransferRate
from engine.run.request import CheckedRequest, DecodeRequest, fit_to_model, tokenize_prompt
from engine.run.scheduler import EventCallback
from engine.run.total_length import count_new_tokens, describe_lengths
from engine.sandbox.confinement import DEVICE
from engine.sandbox.folder import ENTRY
from engine.sources.source import Source
from engine.strategies.base import Strategy
from engine.strategies.compatibility import incompatibility_reason, uses_cache
from engine.trace.events import Loading

if TYPE_CHECKING:
    from engine.grammar.processor import GrammarLogitsProcessor
    from engine.processors.thinking_budget import ThinkingBudgetLogitsProcessor
    from engine.run.weights import RequestedModel

_POLL_S = 0.05


@dataclass(frozen=True)
class Prepared:
    """A request with its loaded models and token ids, ready to decode."""

    request: DecodeRequest
    checked: CheckedRequest
    """Fitted to the model and to its remaining context."""
    target: LoadedModel
    assistant: LoadedModel | None
    prompt_ids: list[int]
    inputs: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """Further inputs of generate() for an image or a sound, on the model's device."""

    # It writes to __dict__, which a frozen dataclass allows and one with slots does not have.
    @cached_property
    def grammars(self) -> list[GrammarLogitsProcessor]:
        """See ``grammar_processors``."""
        parent = self.request.parent
        return grammar_processors(self.config, self.target, self.prompt_ids, parent)

    @cached_property
    def thinking(self) -> list[ThinkingBudgetLogitsProcessor]:
        """See ``thinking_processors``."""
        return thinking_processors(self.config, self.target, self.prompt_ids, self.request.parent)

    @property
    def continued_ids(self) -> list[int]:
        """The tokens at the end of the prompt that belong to the text of the first run."""
        parent = self.request.parent
        return self.prompt_ids[len(self.prompt_ids) - parent.written :] if parent else []

    @property
    def method(self) -> RequestedMethod | None:
        """The custom generation method, None for a built-in strategy."""
        return self.checked.method

    @property
    def models(self) -> list[Model]:
        """The transformers models: the target's, and the draft's if there is one."""
        return [loaded.model for loaded in (self.target, self.assistant) if loaded is not None]

    @property
    def strategy(self) -> Strategy:
        return self.checked.strategy

    @property
    def config(self) -> Any:
        """The strategy's config dataclass."""
        return self.checked.config


def prepare(
    checked: CheckedRequest,
    get: Callable[[LoadedModel | Source, WeightsParams], LoadedModel] | None = None,
) -> Prepared:
    """Load the models of a validated request and validate it against them.

    Args:
        checked: the request.
        get: returns a loaded model; None for ``get_model``.

    Raises:
        EngineError: an error that the user can act on.
    """
    checked = parse_models(fetch_request_method(checked))
    loaded = map(get or get_model, checked.models, checked.weights)
    target, assistant = next(loaded), next(loaded, None)
    with ModelWork(target.name, checked.strategy.title):
        checked = fit_request(checked, target, assistant)
        checked, ids, inputs = encode_prompt(checked, target)
        # Total lengths first: they become max_new_tokens, which the context may then cut.
        checked = fit_total_lengths(checked, target, len(ids))
        checked = _fit_length(checked, target, len(ids))
        run = Prepared(checked.request, checked, target, assistant, ids, inputs)
        _ = run.grammars, run.thinking  # what cannot be used is refused now
    return run


def encode_prompt(
    checked: CheckedRequest, target: LoadedModel
) -> tuple[CheckedRequest, list[int], dict[str, torch.Tensor]]:
    """Return the request with its rendered chat, the prompt ids, and further model inputs.

    Args:
        checked: fitted to the model.
        target: the model.

    Raises:
        ParameterError: the model cannot read this prompt.
    """
    read = media_request.encode_media_prompt(checked, target)
    if read is None:
        ids = tokenize_prompt(checked, target)
        if checked.request.prompt == "":
            begin = "".join(target.pieces.of(ids).values())
            note = Message("The prompt is empty, so the model reads {token} alone.", token=begin)
            checked = dataclasses.replace(checked, notes=(*checked.notes, note))
        return checked, ids, {}
    encoded, chat = read
    inputs = encoded.to_device(target.device, target.model.dtype)
    return dataclasses.replace(checked, chat=chat), list(encoded.ids), inputs


def fit_request(
    checked: CheckedRequest, target: LoadedModel, assistant: LoadedModel | None = None
) -> CheckedRequest:
    """Check that the models can serve a request, and fit its values to them.

    Raises:
        ModelError: a model lacks what the strategy needs.
        ParameterError: a value that the model cannot honour.
    """
    refused = incompatibility_reason(checked.strategy, target, assistant)
    if refused:
        raise ModelError(refused)
    if checked.method is not None:
        check_model_compatible(checked.method, target)
    checked = fit_to_model(checked, target)
    if checked.method is None and _has_own_method(target):
        own = Message(
            "{name} brings its own generation method in {file}; only the strategy custom runs "
            "such a method.",
            name=target.name,
            file=ENTRY,
        )
        checked = dataclasses.replace(checked, notes=(*checked.notes, own))
    # A server has a cache of its own.
    if uses_cache(checked.strategy, target.capabilities) or target.info().host:
        return checked
    note = Message(
        "Every step reads the whole text again: {name} has no cache that could serve here.",
        name=target.name,
    )
    return dataclasses.replace(checked, notes=(*checked.notes, note))


def _has_own_method(target: LoadedModel) -> bool:
    """Return whether a model's folder has a custom generation method, as transformers would run."""
    folder = None if target.source is None else target.source.folder()
    return folder is not None and (Path(folder) / ENTRY).is_file()


def fetch_request_method(
    checked: CheckedRequest, cancelled: threading.Event | None = None
) -> CheckedRequest:
    """Return a request whose custom method, if any, is on this machine; see ``fetch_method``."""
    if checked.method is None:
        return checked
    method, config = fetch_method(checked.method, checked.config, cancelled)
    return dataclasses.replace(checked, method=method, config=config)


def parse_model(model: RequestedModel, default: str | None = None) -> LoadedModel | Source:
    """Return what a request gives as its model: a loaded model, or what a name or the default means.

    Raises:
        ModelError: the name is not allowed, or no name is given.
    """
    if isinstance(model, LoadedModel):
        return model
    name = default if model is None else model
    if name is None:
        raise ModelError("Name a model: this strategy has no default model.")
    return Source.parse(name)


def parse_models(checked: CheckedRequest) -> CheckedRequest:
    """Return a request with its models' names parsed, without network access.

    Raises:
        ModelError: a name is not allowed or missing.
    """
    if checked.models:
        return checked
    request, strategy = checked.request, checked.strategy
    models, notes = [parse_model(request.model, strategy.default_model)], checked.notes
    if checked.method is not None and checked.method.function is None:
        models = [_on_sandbox_device(model) for model in models]
    if strategy.assistant != "none":
        models.append(parse_model(request.assistant, strategy.default_assistant))
    elif request.assistant is not None:
        unused = Message(
            "assistant = {name} is not used: {strategy} has no draft model.",
            name=getattr(request.assistant, "name", request.assistant),
            strategy=strategy.title,
        )
        notes = (*notes, unused)
    return dataclasses.replace(checked, models=tuple(models), notes=notes)


def _on_sandbox_device(model: LoadedModel | Source) -> LoadedModel | Source:
    """Return a model for a confined process and for the scores of its texts, both on one device."""
    return dataclasses.replace(model, device=DEVICE) if isinstance(model, Source) else model


def named_models(checked: CheckedRequest) -> list[tuple[Source, WeightsParams]]:
    """Return the models that a request names, each with its weights; given objects are left out."""
    # There are always two weights settings, also where there is no draft model.
    pairs = zip(checked.models, checked.weights, strict=False)
    return [(model, weights) for model, weights in pairs if isinstance(model, Source)]


def has_loaded_models(checked: CheckedRequest) -> bool:
    """Return whether all models that a request names are in memory."""
    return all(get_cached_model(*named) is not None for named in named_models(checked))


def get_model(model: LoadedModel | Source, weights: WeightsParams | None = None) -> LoadedModel:
    """Return a loaded model: the given one, or the one from a source.

    Raises:
        ModelError: it cannot be loaded.
    """
    return model if isinstance(model, LoadedModel) else load_source(model, weights=weights)


class ModelLoader:
    """Loads the models of a run with progress events; cancellation does not wait for a load.

    Args:
        cancelled: gives up waiting when set; the load continues and serves the next run.
        tell: receives Loading events.

    Attributes:
        load_s: seconds spent loading so far.
    """

    def __init__(self, cancelled: threading.Event, tell: EventCallback) -> None:
        self.cancelled, self.tell, self.load_s = cancelled, tell, 0.0
        self._begun = memory_budget.eviction_mark()

    def __call__(
        self, model: LoadedModel | Source, weights: WeightsParams | None = None
    ) -> LoadedModel:
        """Return a loaded model: the given one, or the one from a source.

        Raises:
            Cancelled: the run was cancelled meanwhile.
            ModelError: see ``get_model``.
        """
        if isinstance(model, LoadedModel) or get_cached_model(model, weights) is not None:
            return get_model(model, weights)
        self.fetch([(model, weights or WeightsParams())])
        event = Loading(model.name)
        self.tell(event)
        began = time.perf_counter()
        executor = ThreadPoolExecutor(1)
        loading = executor.submit(load_source, model, weights=weights)
        # Not waited for: after a cancel the load continues and serves the next run.
        executor.shutdown(wait=False)
        while not wait([loading], _POLL_S).done:
            if self.cancelled.is_set():
                raise Cancelled
            event = self._report_evictions(event)
        self._report_evictions(event)
        self.load_s += time.perf_counter() - began
        return loading.result()

    def fetch(self, named: Iterable[tuple[Source, WeightsParams]]) -> None:
        """Download or convert missing models without loading them or blocking other runs.

        Args:
            named: where models come from, each with its weights settings.

        Raises:
            BusyError: too many downloads are running.
            Cancelled: the run was cancelled meanwhile.
            ModelError: a model cannot be downloaded or converted.
        """
        for source, weights in named:
            began = time.perf_counter()
            # A model in memory needs no files, which a public Space may have deleted since.
            if source.needs_preparation and get_cached_model(source) is None:
                self.tell(Loading(source.name))
                report = partial(self._report_progress, source.name, TransferRate())
                resolve_model(source, self.cancelled, report)
                self._report_evictions(Loading(source.name))
            if weights.backend != TORCH and get_cached_model(source, weights) is None:
                self._convert(source, weights.backend)
            self.load_s += time.perf_counter() - began

    def _convert(self, source: Source, backend: str) -> None:
        folder = source.folder()
        if folder is None or find_graph(folder, backend) is not None:
            return
        self.tell(Loading(source.name, converting=backend))
        ensure_graph(source.name, folder, backend, self.cancelled)

    def _report_evictions(self, event: Loading) -> Loading:
        """Send an event if models were evicted for this load; return the last event sent."""
        found = (
            memory_budget.evictions_since(self._begun, event.model, place)
            for place in ("memory", "disk")
        )
        updated = dataclasses.replace(
            event, **dict(zip(("left_memory", "left_disk"), found, strict=True))
        )
        if updated != event:
            self.tell(updated)
        return updated

    def _report_progress(self, name: str, rate: TransferRate, got: int, total: int) -> None:
        self.tell(Loading(name, got, total, rate.per_second(got)))


def fit_total_lengths(
    checked: CheckedRequest, target: LoadedModel, prompt_length: int
) -> CheckedRequest:
    """Return a request whose max_length and min_length are limits of new tokens.

    Raises:
        ParameterError: they do not fit the prompt.
    """
    if not checked.lengths:
        return checked
    found = count_new_tokens(checked.lengths, 1 if target.is_encoder_decoder else prompt_length)
    config = dataclasses.replace(checked.config, **found)
    config.check()
    notes = (*checked.notes, *describe_lengths(checked.lengths, found))
    return dataclasses.replace(checked, config=config, notes=notes, lengths={})


def _fit_length(checked: CheckedRequest, target: LoadedModel, prompt_length: int) -> CheckedRequest:
    """Cut max_new_tokens to the model's remaining context, with a note."""
    context, config = target.context_length, checked.config
    table = decoder_positions(target)
    if table is not None:  # the encoder reads the prompt; the decoder begins with its start token
        context, prompt_length = table, 1
    if context is None or prompt_length + config.max_new_tokens <= context:
        return checked
    room = context - prompt_length
    values = {"n": config.max_new_tokens, "room": room, "context": context}
    note = (
        Message(
            "max_new_tokens = {n} was cut to {room}: the model's decoder has {context} positions, "
            "one of them for its start token.",
            **values,
        )
        if table
        else Message(
            "max_new_tokens = {n} was cut to {room}: the prompt has {length} tokens and "
            "the model's context is {context}.",
            **values,
            length=prompt_length,
        )
    )
    # generate() calls a minimum above the maximum unfeasible.
    floor = min(config.min_new_tokens, room) if config.min_new_tokens else config.min_new_tokens
    config = dataclasses.replace(config, max_new_tokens=room, min_new_tokens=floor)
    return dataclasses.replace(checked, config=config, notes=(*checked.notes, note))
