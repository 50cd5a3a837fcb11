"""Type guards that say what a value contains after ``isinstance``: anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeGuard


def is_list(value: object) -> TypeGuard[list[object] | tuple[object, ...]]:
    """Return True for a list or tuple of anything."""
    return isinstance(value, (list, tuple))


def is_mapping(value: object) -> TypeGuard[Mapping[object, object]]:
    """Return True for a mapping of anything to anything."""
    return isinstance(value, Mapping)
