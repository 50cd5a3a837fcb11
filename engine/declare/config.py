"""The JSON values of a strategy's config."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from engine.type_guards import is_list

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def config_to_dict(config: DataclassInstance) -> dict[str, Any]:
    """Return a config as JSON values: tuples become lists, callables their name."""
    return {f.name: _to_plain(getattr(config, f.name)) for f in dataclasses.fields(config)}


def _to_plain(value: object) -> Any:
    if is_list(value):
        return [_to_plain(item) for item in value]
    if callable(value):
        return f"<callable {getattr(value, '__name__', 'object')}>"
    return value
