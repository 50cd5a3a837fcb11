"""A model beside itself: the same weights under wiring and a configuration of its own, which may be changed."""

from __future__ import annotations

import copy
from typing import Any

import transformers

from engine.models.bare import special_ids_of
from engine.models.hooks import rewired

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


def twin(model: Any, attention: str | None = None) -> Any:
    """Return a model that shares every parameter with another one and owns all that is around them.

    Nothing that is set, hung on or counted there reaches the model, which is not modified.

    Args:
        model: a transformers generation model.
        attention: how attention is computed there, ``eager`` where its weights are to be seen; None is as in
            the model.
    """
    configs: dict[int, Any] = {}
    own = _twin(model, {}, configs)
    for config in list(configs.values()):
        if attention is not None and isinstance(config, transformers.PreTrainedConfig):
            config._attn_implementation = attention
    own.generation_config = special_ids_of(model)
    # As in ``bare``: generate() refuses drafting for every model with a running state.
    own._is_stateful = False
    return own


def _twin(module: Any, made: dict[int, Any], configs: dict[int, Any]) -> Any:
    """Return a module's twin, the same one wherever the module stands.

    Args:
        module: of the model.
        made: twins by the identity of their modules.
        configs: what ``copy.deepcopy`` remembers: configurations are shared by modules, too.
    """
    if id(module) in made:
        return made[id(module)]
    own = made[id(module)] = rewired(copy.copy(module))
    wiring = vars(own)
    for name in _OWNED:
        if name in wiring:
            wiring[name] = copy.copy(wiring[name])
    wiring["_modules"] = {
        name: None if child is None else _twin(child, made, configs)
        for name, child in module._modules.items()
    }
    for name, value in list(wiring.items()):
        if isinstance(value, transformers.PreTrainedConfig):
            wiring[name] = copy.deepcopy(value, configs)
    return own
