"""What a run needs before it decodes: a checked request, its models, its prompt as ids."""

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
from engine.models.locating import comes_first, located
from engine.models.openvino.kept import converted, graph_of
from engine.run import media_request
from engine.run.methods import AskedMethod, check_serves, settled
from engine.run.permits import Tell
from engine.run.rate import Rate
from engine.run.request import CheckedRequest, DecodeRequest, fit_to_model, prompt_ids_of
from engine.strategies.base import Strategy
from engine.strategies.refusal import refusal, uses_cache
from engine.trace.events import Loading

_POLL_S = 0.05


@dataclass(frozen=True)
class Prepared:
    """A request that can be decoded."""

    request: DecodeRequest
    checked: CheckedRequest
    """Fitted to the model and to the room its context leaves."""
    target: LoadedModel
    assistant: LoadedModel | None
    prompt_ids: list[int]
    inputs: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """Further inputs of generate(), of a picture or a sound; on the model's device."""

    @property
    def method(self) -> AskedMethod | None:
        """The custom generation method that decides, None for a strategy of ours."""
        return self.checked.method

    @property
    def strategy(self) -> Strategy:
        """The strategy that decodes."""
        return self.checked.strategy

    @property
    def config(self) -> Any:
        """The strategy's own config dataclass."""
        return self.checked.config


def prepare(
    checked: CheckedRequest,
    get: Callable[[Any, str | None, WeightsParams], LoadedModel] | None = None,
) -> Prepared:
    """Load what a checked request names, and check it against that.

    Args:
        checked: the request.
        get: returns a model, given what the request names, the strategy's default and how it is held;
            None is ``model_of``.

    Raises:
        EngineError: what the user can act on.
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
    """Return what a model begins with: the request with its conversation, ids, and what else it is given.

    Args:
        checked: fitted to the model.
        target: the model.

    Raises:
        ParameterError: it cannot begin with that.
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
        ModelError: a model cannot do what the strategy needs.
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
    """Return a request whose method, if it has one, is on this machine; see ``methods.settled``."""
    if checked.method is None:
        return checked
    method, config = settled(checked.method, checked.config, cancelled)
    return dataclasses.replace(checked, method=method, config=config)


def model_of(model: Any, default: str | None, weights: WeightsParams | None = None) -> LoadedModel:
    """Return a loaded model: the one given, or the one of this name, or else the default.

    Raises:
        ModelError: it cannot be loaded, or there is none.
    """
    if isinstance(model, LoadedModel):
        return model
    name = default if model is None else model
    if name is None:
        raise ModelError("Name a model: this strategy has none of its own.")
    return load(name, weights=weights)


class Models:
    """Gets the models of a run. One that is not in memory is told of; whoever stops does not wait for it.

    Args:
        cancelled: gives up waiting when set; the load goes on and serves the next run.
        tell: gets Loading events.

    Attributes:
        load_s: seconds that loading took so far.
    """

    def __init__(self, cancelled: threading.Event, tell: Tell) -> None:
        self.cancelled, self.tell, self.load_s = cancelled, tell, 0.0
        self._begun = leaving.mark()

    def __call__(
        self, model: Any, default: str | None = None, weights: WeightsParams | None = None
    ) -> LoadedModel:
        """Return a loaded model: the one given, or the one of this name, or else the default.

        Raises:
            Cancelled: it was cancelled meanwhile.
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
        executor.shutdown(wait=False)
        while not wait([loading], _POLL_S).done:
            if self.cancelled.is_set():
                raise Cancelled
            told = self._tell_left(told)
        self._tell_left(told)
        self.load_s += time.perf_counter() - began
        return loading.result()

    def fetch(self, named: Iterable[tuple[str, WeightsParams]]) -> None:
        """Fetch or convert what is not on this machine; nothing is loaded, and nobody else waits for it.

        Args:
            named: names of models, each with how it is going to be held.

        Raises:
            BusyError: too many models are being fetched.
            Cancelled: it was cancelled meanwhile.
            ModelError: one cannot be fetched or converted.
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
        """Tell once which models left for the one that was told of; return what is told by now."""
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
    """Check the names of a request's models, without the network.

    Raises:
        ModelError: what is wrong with one.
    """
    for name, _ in named_models(checked):
        files.check_name(name)


def in_memory(checked: CheckedRequest) -> bool:
    """Return whether all models of a request are loaded already."""
    return all(cached(*named) is not None for named in named_models(checked))


def named_models(checked: CheckedRequest) -> list[tuple[str, WeightsParams]]:
    """Return the models that a request has not brought along, each with how it is held."""
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
    """Cut max_new_tokens to what the model's context leaves, and say so."""
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
