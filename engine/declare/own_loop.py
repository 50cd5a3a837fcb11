"""Which loop exported code brings along, where transformers' generate() would give other tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class OwnLoop:
    """A loop that exported code brings along, because generate() cannot make the run by itself."""

    loop: Callable[..., Any]
    """A module-level generator of Steps; parameters it shares with the config are passed to it."""
    why: str
    """One sentence without its full stop."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """More keyword arguments of the loop; plain values."""


def never(config: Any) -> OwnLoop | None:
    """Say that generate() alone gives the same tokens, whatever the parameters."""
    del config
    return None
