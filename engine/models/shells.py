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
from engine.models.openvino.model import OnGraph


def shell_of(model: Any, attention: str | None = None) -> Any:
    """Return a model that shares every parameter and buffer, and nothing else.

    Args:
        model: a transformers model; it is not touched.
        attention: how the shell computes attention, in transformers' words; None for the model's own way.

    Raises:
        ModelError: the model computes in a way that no shell can follow.
    """
    if isinstance(model, OnGraph):
        raise ModelError(
            "On openvino a model cannot be looked into: ask one that is held by torch."
        )
    # Also what deepcopy remembers, so that modules that shared a configuration share its copy.
    configs: dict[int, Any] = {}
    shell = _shell(model, {}, configs)
    for config in configs.values():
        if attention is not None and isinstance(config, transformers.PreTrainedConfig):
            config._attn_implementation_internal = attention
    return shell


def _shell(module: torch.nn.Module, made: dict[int, Any], configs: dict[int, Any]) -> Any:
    if id(module) in made:
        return made[id(module)]
    if wired_to_itself(module):
        raise ModelError(f"{type(module).__name__} computes in a way that cannot be looked into.")
    shell = rewired(copy.copy(module))
    made[id(module)] = shell
    own = vars(shell)
    for name, value in list(own.items()):
        if isinstance(value, transformers.PreTrainedConfig):
            own[name] = copy.deepcopy(value, configs)
        elif name.endswith(("_hooks", "_hooks_with_kwargs", "_hooks_always_called")):
            # Shared, a hook on the shell would act on the model, too.
            own[name] = copy.copy(value)
    own["_modules"] = {
        name: None if child is None else _shell(child, made, configs)
        for name, child in module._modules.items()
    }
    return shell
