"""What passes leave in the modules of a model, such as a running state or rotary tables: notice it, forget it.

RecurrentGemma stores its running state in its layers, models for pictures the offset of their positions,
Reformer the number of buckets of the first text. A later run would read all of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import torch

from engine.models.model_types import Model

_MISSING = object()
_PLAIN_TYPES = frozenset((bool, int, float, str, type(None)))


@cache
def _wiring() -> frozenset[str]:
    """Return the attributes of every module that hold weights, modules and hooks, which no pass changes."""
    return frozenset(vars(torch.nn.Module())) - {"_buffers"} | {"_hf_hook"}


class ModuleState:
    """The attributes and buffers of models' modules at one moment.

    Args:
        models: transformers models.
    """

    def __init__(self, *models: Model) -> None:
        self._models = models
        # The objects themselves: an id alone may be used again.
        self._before = self._list_values()

    def has_changed(self) -> bool:
        """Return whether a module holds something else now: new objects, or buffers written in place."""
        now = self._list_values()
        return len(now) != len(self._before) or any(
            # An equal number may be another object.
            ours is not theirs and not (isinstance(ours, int | float | str) and ours == theirs)
            for ours, theirs in zip(now, self._before, strict=True)
        )

    def _list_values(self) -> list[Any]:
        # Made for every turn, of thousands of attributes: most of them are plain.
        values: list[Any] = []
        wiring = _wiring()
        for model in self._models:
            for module in model.modules():
                for name, value in vars(module).items():
                    if name in wiring:
                        continue
                    if type(value) in _PLAIN_TYPES:
                        values.append(value)
                    elif type(value) is not dict or value:
                        values += _flatten(value)
        return values


def _flatten(value: Any) -> Iterator[Any]:
    """Yield a value, its version if it is a tensor, and the members of a list or dict."""
    if isinstance(value, dict):
        yield from value
        for member in value.values():
            yield from _flatten(member)
    elif isinstance(value, list):
        for member in value:
            yield from _flatten(member)
    else:
        yield value
        # Tensors made in inference mode count no versions.
        if isinstance(value, torch.Tensor) and not value.is_inference():
            yield value._version


class InitialState:
    """The values that a model's modules had before any pass, to set them back.

    Args:
        model: its modules are remembered as they are now, without copying a tensor.
    """

    def __init__(self, model: object) -> None:
        modules = model.modules() if isinstance(model, torch.nn.Module) else ()
        self._saved = [(own, dict(own)) for module in modules for own in _value_holders(module)]

    def restore(self) -> None:
        """Set every value back that a pass has replaced, and delete what it has added."""
        for own, saved in self._saved:
            for name, value in list(own.items()):
                old = saved.get(name, _MISSING)
                if old is value or not (_is_state(value) and (old is _MISSING or _is_state(old))):
                    continue
                if old is _MISSING:
                    del own[name]
                elif not _has_moved(old, value):
                    own[name] = old


def _value_holders(module: torch.nn.Module) -> Iterator[dict[str, Any]]:
    yield vars(module)
    yield module._buffers


def _is_state(value: object) -> bool:
    # A flag such as RWKV's says that weights were rescaled in place, which nothing here undoes.
    return isinstance(value, torch.Tensor | int | float | tuple | list | None) and not isinstance(
        value, bool
    )


def _has_moved(old: object, value: object) -> bool:
    """Return True if a tensor was moved or converted, as by ``model.to``."""
    if not (isinstance(old, torch.Tensor) and isinstance(value, torch.Tensor)):
        return False
    return old.device != value.device or old.dtype != value.dtype
