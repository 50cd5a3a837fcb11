"""Copies of modules that carry accelerate's offloading hooks.

``accelerate.hooks.add_hook_to_module`` sets a ``forward`` on the module instance that is bound to this
instance, so a plain copy would compute with the original's children.
"""

from __future__ import annotations

import functools
import types
from typing import Any

import torch

_FORWARD_ATTRIBUTES = ("forward", "_old_forward")


def is_hooked(module: torch.nn.Module) -> bool:
    """Return True if accelerate has wrapped the module's forward."""
    return "_hf_hook" in vars(module) and "_old_forward" in vars(module)


def has_own_forward(module: torch.nn.Module) -> bool:
    """Return True if the instance has its own forward, other than accelerate's, which a copy cannot rebind."""
    return "forward" in vars(module) and not is_hooked(module)


def rewire_hooks(copied: Any) -> Any:
    """Rebind accelerate's hook of a shallow copy to the copy, and return the copy.

    Args:
        copied: ``copy.copy`` of a module; changed in place if it has a hook.
    """
    if not is_hooked(copied):
        return copied
    own = vars(copied)
    before, after = (own[name] for name in _FORWARD_ATTRIBUTES)
    own["_old_forward"] = types.MethodType(after.__func__, copied)
    own["forward"] = functools.update_wrapper(
        functools.partial(before.func, copied), own["_old_forward"]
    )
    return copied
