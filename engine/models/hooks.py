"""Modules whose weights accelerate brings when they are needed: what a copy of one must be given anew.

``accelerate.hooks.add_hook_to_module`` puts a ``forward`` of its own on the module, which is wired to
that very module; a copy would compute with the original's children.
"""

from __future__ import annotations

import functools
import types
from typing import Any

_WIRED = ("forward", "_old_forward")


def is_hooked(module: Any) -> bool:
    """Return whether accelerate has put its own forward before a module's."""
    return "_hf_hook" in vars(module) and "_old_forward" in vars(module)


def wired_to_itself(module: Any) -> bool:
    """Return whether a module computes with a forward of its own instance that no copy can take along."""
    return "forward" in vars(module) and not is_hooked(module)


def rewired(copied: Any) -> Any:
    """Return a shallow copy of a module, whose hook now serves the copy; others are returned as they are.

    Args:
        copied: ``copy.copy`` of a module; it is changed.
    """
    if not is_hooked(copied):
        return copied
    own = vars(copied)
    before, after = (own[name] for name in _WIRED)
    own["_old_forward"] = types.MethodType(after.__func__, copied)
    own["forward"] = functools.update_wrapper(
        functools.partial(before.func, copied), own["_old_forward"]
    )
    return copied
