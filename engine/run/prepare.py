"""What a run needs before it decodes: a checked request, its models, its prompt as ids."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from engine.errors import ModelError
from engine.models.loading import LoadedModel, load
from engine.run.request import CheckedRequest, DecodeRequest, check, fit_to_model, prompt_ids_of
from engine.strategies.base import Strategy
from engine.strategies.refusal import refusal, uses_cache


@dataclass(frozen=True)
class Prepared:
    """A request that can be decoded."""

    request: DecodeRequest
    checked: CheckedRequest
    """Fitted to the model and to the room its context leaves."""
    target: LoadedModel
    assistant: LoadedModel | None
    prompt_ids: list[int]

    @property
    def strategy(self) -> Strategy:
        """The strategy that decodes."""
        return self.checked.strategy

    @property
    def config(self) -> Any:
        """The strategy's own config dataclass."""
        return self.checked.config


def prepare(request: DecodeRequest) -> Prepared:
    """Validate a request and load what it names.

    Raises:
        EngineError: what the user can act on.
    """
    checked = check(request)
    target = model_of(request.model, checked.strategy.default_model)
    assistant = None
    if checked.strategy.assistant != "none":
        assistant = model_of(request.assistant, checked.strategy.default_assistant)
    checked = fitted(checked, target, assistant)
    ids = prompt_ids_of(checked, target)
    return Prepared(request, _fit_length(checked, target, len(ids)), target, assistant, ids)


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
    checked = fit_to_model(checked, target)
    if uses_cache(checked.strategy, target.capabilities):
        return checked
    note = (
        f"Every step reads the whole text again: {target.name} has no cache that could serve here."
    )
    return dataclasses.replace(checked, notes=(*checked.notes, note))


def model_of(model: Any, default: str | None) -> LoadedModel:
    """Return a loaded model: the one given, or the one of this name, or else the default.

    Raises:
        ModelError: it cannot be loaded, or there is none.
    """
    if isinstance(model, LoadedModel):
        return model
    name = default if model is None else model
    if name is None:
        raise ModelError("Name a model: this strategy has none of its own.")
    return load(name)


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
