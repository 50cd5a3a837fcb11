"""A model's weights behind modules and configurations of their own, which can be looked into or set otherwise.

What is put on a shell, a hook or another way to compute attention, nobody sees who runs the model itself.
"""

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
"""What a pass may add to: transformers hangs on a layer what shows its output, and rotary tables grow."""


def shell_of(model: Any, attention: str | None = None) -> Any:
    """Return a model that shares every parameter and owns what is around them, to be looked into.

    Args:
        model: a transformers model; it is not touched.
        attention: as in ``shell``.

    Raises:
        ModelError: the model computes in a way that no shell can follow.
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
    """Return a model that shares every parameter with another one and owns all that is around them.

    Nothing that is set, hung on or counted there reaches the model, which is not modified.

    Args:
        model: a transformers model.
        attention: how attention is computed there, ``eager`` where its weights are to be seen; None is as in
            the model.
    """
    # Also what deepcopy remembers, so that modules that shared a configuration share its copy.
    configs: dict[int, Any] = {}
    own = _shell(model, {}, configs)
    for config in list(configs.values()):
        if attention is not None and isinstance(config, transformers.PreTrainedConfig):
            config._attn_implementation = attention
    return own


def _shell(module: torch.nn.Module, made: dict[int, Any], configs: dict[int, Any]) -> Any:
    """Return a module's shell, the same one wherever the module stands.

    Args:
        module: of the model.
        made: shells by the identity of their modules.
        configs: what ``copy.deepcopy`` remembers.
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
