"""Prepares a run before decoding: models, values fitted to them, and prompt ids."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from engine.declare.weights import TORCH, WeightsParams
from engine.errors import Cancelled, ModelError
from engine.models import files, leaving
from engine.models.loading import LoadedModel, cached, load
from engine.models.model_resolver import comes_first, located
from engine.models.openvino.graph_store import converted, graph_of
from engine.run import media_request
from engine.run.method_request import AskedMethod, check_serves, settled
from engine.run.rate import Rate
from engine.run.request import CheckedRequest, DecodeRequest, fit_to_model, prompt_ids_of
from engine.run.scheduler import Tell
from engine.strategies.base import Strategy
from engine.strategies.compatibility import refusal, uses_cache
from engine.trace.events import Loading

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

    @property
    def method(self) -> AskedMethod | None:
        """The custom generation method, None for a built-in strategy."""
        return self.checked.method

    @property
    def strategy(self) -> Strategy:
        return self.checked.strategy

    @property
    def config(self) -> Any:
        """The strategy's config dataclass."""
        return self.checked.config


def prepare(
    checked: CheckedRequest,
    get: Callable[[Any, str | None, WeightsParams], LoadedModel] | None = None,
) -> Prepared:
    """Load the models of a validated request and validate it against them.

    Args:
        checked: the request.
        get: returns a model for (requested model, the strategy's default, weights settings); None
            for ``model_of``.

    Raises:
        EngineError: an error that the user can act on.
    """
    get, request = get or model_of, checked.request
    checked = with_method(checked)
    own, draft = checked.weights
    target = get(request.model, checked.strategy.default_model, own)
    assistant = None
    if checked.strategy.assistant != "none":
        assistant = get(request.assistant, checked.strategy.default_assistant, draft)
    checked = fitted(checked, target, assistant)
    checked, ids, inputs = begun(checked, target)
    checked = _fit_length(checked, target, len(ids))
    return Prepared(request, checked, target, assistant, ids, inputs)


def begun(
    checked: CheckedRequest, target: LoadedModel
) -> tuple[CheckedRequest, list[int], dict[str, torch.Tensor]]:
    """Return the request with its rendered chat, the prompt ids, and further model inputs.

    Args:
        checked: fitted to the model.
        target: the model.

    Raises:
        ParameterError: the model cannot read this prompt.
    """
    read = media_request.read(checked, target)
    if read is None:
        return checked, prompt_ids_of(checked, target), {}
    made, chat = read
    inputs = made.on(target.device, target.model.dtype)
    return dataclasses.replace(checked, chat=chat), list(made.ids), inputs


def fitted(
    checked: CheckedRequest, target: LoadedModel, assistant: LoadedModel | None = None
) -> CheckedRequest:
    """Check that the models can serve a request, and fit its values to them.

    Raises:
        ModelError: a model lacks what the strategy needs.
        ParameterError: a value that the model cannot honour.
    """
    refused = refusal(checked.strategy, target, assistant)
    if refused:
        raise ModelError(refused)
    if checked.method is not None:
        check_serves(checked.method, target)
    checked = fit_to_model(checked, target)
    if uses_cache(checked.strategy, target.capabilities):
        return checked
    note = (
        f"Every step reads the whole text again: {target.name} has no cache that could serve here."
    )
    return dataclasses.replace(checked, notes=(*checked.notes, note))


def with_method(
    checked: CheckedRequest, cancelled: threading.Event | None = None
) -> CheckedRequest:
    """Return a request whose custom method, if any, is on this machine; see ``methods.settled``."""
    if checked.method is None:
        return checked
    method, config = settled(checked.method, checked.config, cancelled)
    return dataclasses.replace(checked, method=method, config=config)


def model_of(model: Any, default: str | None, weights: WeightsParams | None = None) -> LoadedModel:
    """Return a loaded model: the given one, or the one with this name, or the default.

    Raises:
        ModelError: it cannot be loaded, or no name is given.
    """
    if isinstance(model, LoadedModel):
        return model
    name = default if model is None else model
    if name is None:
        raise ModelError("Name a model: this strategy has none of its own.")
    return load(name, weights=weights)


class Models:
    """Loads the models of a run with progress events; cancellation does not wait for a load.

    Args:
        cancelled: gives up waiting when set; the load continues and serves the next run.
        tell: receives Loading events.

    Attributes:
        load_s: seconds spent loading so far.
    """

    def __init__(self, cancelled: threading.Event, tell: Tell) -> None:
        self.cancelled, self.tell, self.load_s = cancelled, tell, 0.0
        self._begun = leaving.mark()

    def __call__(
        self, model: Any, default: str | None = None, weights: WeightsParams | None = None
    ) -> LoadedModel:
        """Return a loaded model: the given one, or the one with this name, or the default.

        Raises:
            Cancelled: the run was cancelled meanwhile.
            ModelError: see ``model_of``.
        """
        name = default if model is None else model
        if not isinstance(name, str) or cached(name, weights) is not None:
            return model_of(model, default, weights)
        files.check_name(name)
        self.fetch([(name, weights or WeightsParams())])
        told = Loading(name)
        self.tell(told)
        began = time.perf_counter()
        executor = ThreadPoolExecutor(1)
        loading = executor.submit(load, name, weights=weights)
        # Not waited for: after a cancel the load continues and serves the next run.
        executor.shutdown(wait=False)
        while not wait([loading], _POLL_S).done:
            if self.cancelled.is_set():
                raise Cancelled
            told = self._tell_left(told)
        self._tell_left(told)
        self.load_s += time.perf_counter() - began
        return loading.result()

    def fetch(self, named: Iterable[tuple[str, WeightsParams]]) -> None:
        """Download or convert missing models without loading them or blocking other runs.

        Args:
            named: names of models, each with its weights settings.

        Raises:
            BusyError: too many downloads are running.
            Cancelled: the run was cancelled meanwhile.
            ModelError: a model cannot be downloaded or converted.
        """
        for name, weights in named:
            began = time.perf_counter()
            if comes_first(name) and cached(name) is None:
                self.tell(Loading(name))
                located(name, self.cancelled, partial(self._come, name, Rate()))
                self._tell_left(Loading(name))
            if weights.backend != TORCH and cached(name, weights) is None:
                self._convert(name, weights.backend)
            self.load_s += time.perf_counter() - began

    def _convert(self, name: str, backend: str) -> None:
        folder = files.local_folder(name)
        if folder is None or graph_of(folder, backend) is not None:
            return
        self.tell(Loading(name, converting=backend))
        converted(name, folder, backend, self.cancelled)

    def _tell_left(self, told: Loading) -> Loading:
        """Send an event if models were evicted for this load; return the last event sent."""
        found = (leaving.since(self._begun, told.model, place) for place in ("memory", "disk"))
        now = dataclasses.replace(
            told, **dict(zip(("left_memory", "left_disk"), found, strict=True))
        )
        if now != told:
            self.tell(now)
        return now

    def _come(self, name: str, rate: Rate, got: int, total: int) -> None:
        self.tell(Loading(name, got, total, rate.of(got)))


def check_names(checked: CheckedRequest) -> None:
    """Check the names of a request's models without network access.

    Raises:
        ModelError: a name is not allowed.
    """
    for name, _ in named_models(checked):
        files.check_name(name)


def in_memory(checked: CheckedRequest) -> bool:
    """Return whether all models that a request names are in memory."""
    return all(cached(*named) is not None for named in named_models(checked))


def named_models(checked: CheckedRequest) -> list[tuple[str, WeightsParams]]:
    """Return the models that a request names, each with its weights; given objects are left out."""
    request, strategy = checked.request, checked.strategy
    own, draft = checked.weights
    named: list[tuple[Any, WeightsParams]] = [
        (strategy.default_model if request.model is None else request.model, own)
    ]
    if strategy.assistant != "none":
        given = request.assistant
        named.append((strategy.default_assistant if given is None else given, draft))
    return [
        (model, weights)
        for model, weights in named
        if model is not None and not isinstance(model, LoadedModel)
    ]


def _fit_length(checked: CheckedRequest, target: LoadedModel, prompt_length: int) -> CheckedRequest:
    """Cut max_new_tokens to the model's remaining context, with a note."""
    context = target.context_length
    config = checked.config
    if context is None or prompt_length + config.max_new_tokens <= context:
        return checked
    room = context - prompt_length
    note = (
        f"max_new_tokens = {config.max_new_tokens} was cut to {room}: the prompt has "
        f"{prompt_length} tokens and the model's context is {context}."
    )
    floor = min(config.min_new_tokens, room) if config.min_new_tokens else config.min_new_tokens
    config = dataclasses.replace(config, max_new_tokens=room, min_new_tokens=floor)
    return dataclasses.replace(checked, config=config, notes=(*checked.notes, note))
