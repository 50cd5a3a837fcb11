"""Views of a model: they share its parameters but have their own modules, hooks and configuration."""

from __future__ import annotations

import copy
from typing import Any

import torch
import transformers

from engine.errors import ModelError
from engine.models.hooks import rewired, wired_to_itself

_OWNED = (
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


def shell_of(model: Any, attention: str | None = None) -> Any:
    """Return a view of the model for inspection (attention weights, gradients).

    Args:
        model: a transformers model; it is not modified.
        attention: attention implementation, see ``shell``.

    Raises:
        ModelError: the model runs on OpenVINO, or a module's forward cannot be copied.
    """
    if hasattr(model, "graphs"):
        raise ModelError(
            "On openvino a model cannot be looked into: ask one that is held by torch."
        )
    wired = next((module for module in model.modules() if wired_to_itself(module)), None)
    if wired is not None:
        raise ModelError(f"{type(wired).__name__} computes in a way that cannot be looked into.")
    return shell(model, attention)


def shell(model: Any, attention: str | None = None) -> Any:
    """Return a view of the model with shared parameters and its own modules, hooks and configuration.

    Settings and hooks of the view do not affect the model.

    Args:
        model: a transformers model.
        attention: attention implementation of the view; None keeps the model's. ``eager`` is needed
            to see attention weights, since sdpa keeps none.
    """
    # deepcopy's memo: modules that shared a configuration share its copy.
    configs: dict[int, Any] = {}
    own = _shell(model, {}, configs)
    for config in list(configs.values()):
        if attention is not None and isinstance(config, transformers.PreTrainedConfig):
            config._attn_implementation = attention
    return own


def _shell(module: torch.nn.Module, made: dict[int, Any], configs: dict[int, Any]) -> Any:
    """Return the view of a module; a module that occurs twice gets one view.

    Args:
        module: a module of the model.
        made: views by the id of their modules.
        configs: memo of ``copy.deepcopy``.
    """
    if id(module) in made:
        return made[id(module)]
    own = made[id(module)] = rewired(copy.copy(module))
    wiring = vars(own)
    for name, value in list(wiring.items()):
        if isinstance(value, transformers.PreTrainedConfig):
            wiring[name] = copy.deepcopy(value, configs)
        elif name in _OWNED:
            wiring[name] = copy.copy(value)
    wiring["_modules"] = {
        name: None if child is None else _shell(child, made, configs)
        for name, child in module._modules.items()
    }
    return own
