"""Views of a model that share its weights: without generation defaults, or with separate hooks and configuration."""

from __future__ import annotations

import copy
from typing import Any

import torch
import transformers

from engine.errors import ModelError
from engine.models.files import SPECIAL_IDS
from engine.models.hooks import has_own_forward, rewire_hooks
from engine.models.model_types import Model


def special_ids_config(model: Model) -> Any:
    """Return a GenerationConfig with the model's special token ids only."""
    old = model.generation_config
    return transformers.GenerationConfig(**{name: getattr(old, name, None) for name in SPECIAL_IDS})


def copy_without_defaults(model: Model) -> Any:
    """Return a shallow copy of the model whose generate() inherits special token ids only.

    The copy shares weights, layers, hooks and configuration. The model itself is not modified.
    """
    twin = copy.copy(model)
    twin.generation_config = special_ids_config(model)
    # generate() refuses drafting for models with a running state; our loops can restore states.
    twin._is_stateful = False
    return twin


_COPIED_ATTRIBUTES = (
    "_buffers",
    "_non_persistent_buffers_set",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
)
"""Module attributes that a view copies, because a forward pass may change them.

transformers registers recording hooks on layers, and rotary tables grow."""


def build_inspection_view(model: Model, attention: str | None = None) -> Any:
    """Return a view of the model for inspection (attention weights, gradients).

    Args:
        model: a transformers model; it is not modified.
        attention: attention implementation, see ``build_view``.

    Raises:
        ModelError: the model runs on OpenVINO, or a module's forward cannot be copied.
    """
    if hasattr(model, "graphs"):
        raise ModelError("Influence needs a model on torch, not on OpenVINO.")
    wired = next((module for module in model.modules() if has_own_forward(module)), None)
    if wired is not None:
        raise ModelError(
            "{name} computes in a way that cannot be looked into.", name=type(wired).__name__
        )
    return build_view(model, attention)


def build_view(model: Model, attention: str | None = None) -> Any:
    """Return a view of the model with shared parameters and its own modules, hooks and configuration.

    Settings and hooks of the view do not affect the model.

    Args:
        model: a transformers model.
        attention: attention implementation of the view; None keeps the model's. ``eager`` is needed
            to see attention weights, since sdpa keeps none.
    """
    # deepcopy's memo: modules that shared a configuration share its copy.
    configs: dict[int, Any] = {}
    own = _view_module(model, {}, configs)
    for config in list(configs.values()):
        if attention is not None and isinstance(config, transformers.PreTrainedConfig):
            config._attn_implementation = attention
    return own


def _view_module(module: torch.nn.Module, views: dict[int, Any], configs: dict[int, Any]) -> Any:
    """Return the view of a module; a module that occurs twice gets one view.

    Args:
        module: a module of the model.
        views: views by the id of their modules.
        configs: memo of ``copy.deepcopy``.
    """
    if id(module) in views:
        return views[id(module)]
    own = views[id(module)] = rewire_hooks(copy.copy(module))
    wiring = vars(own)
    for name, value in list(wiring.items()):
        if isinstance(value, transformers.PreTrainedConfig):
            wiring[name] = copy.deepcopy(value, configs)
        elif name in _COPIED_ATTRIBUTES:
            wiring[name] = copy.copy(value)
    wiring["_modules"] = {
        name: None if child is None else _view_module(child, views, configs)
        for name, child in module._modules.items()
    }
    return own


def build_generation_view(model: Model, attention: str | None = None) -> Any:
    """Return a view to generate with: own configuration and hooks, shared parameters.

    Its generate() inherits special token ids only.

    Args:
        model: a transformers generation model; it is not modified.
        attention: attention implementation, see ``build_view``.
    """
    own = build_view(model, attention)
    own.generation_config = special_ids_config(model)
    # As in ``copy_without_defaults``: generate() refuses drafting for models with a running state.
    own._is_stateful = False
    return own
