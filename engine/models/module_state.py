"""Detects whether a run leaves something in the modules of its model, such as a running state or rotary tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from engine.models.model_types import Model

_WIRING = frozenset(("_parameters", "_modules", "training"))


class ModuleState:
    """The attributes and buffers of models' modules at one moment.

    Args:
        models: transformers models; None is ignored.
    """

    def __init__(self, *models: Model | None) -> None:
        self._models = [model for model in models if model is not None]
        # The objects themselves: an id alone may be used again.
        self._before = list(self._list_values())

    def has_changed(self) -> bool:
        """Return whether a module holds something else now: new objects, or buffers written in place."""
        now = list(self._list_values())
        return len(now) != len(self._before) or any(
            ours is not theirs and not (isinstance(ours, int | float | str) and ours == theirs)
            for ours, theirs in zip(now, self._before, strict=True)
        )

    def _list_values(self) -> Iterator[Any]:
        for model in self._models:
            for module in model.modules():
                for name, value in vars(module).items():
                    if name not in _WIRING and "hook" not in name:
                        yield from _flatten(value)


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
