"""The loop that exported code includes where transformers' generate() gives other tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class BundledLoop:
    """A loop included in exported code, because generate() alone cannot reproduce the run."""

    loop: Callable[..., Any]
    """A module-level generator of Steps; it gets the config parameters it names."""
    why: str
    """The reason, one sentence without its full stop."""
    extra: Mapping[str, object] = field(default_factory=dict[str, object])
    """Further keyword arguments of the loop; plain values."""


ChooseLoop = Callable[[Any, "int | None"], "BundledLoop | None"]
"""(config, positions that the model has left after the longest text; None if unlimited) -> the loop."""


def needs_no_loop(config: object, spare: int | None) -> BundledLoop | None:
    """Return None: generate() alone gives the same tokens with any parameters."""
    del config, spare
    return None
