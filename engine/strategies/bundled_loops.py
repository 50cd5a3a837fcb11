"""The decode loop that exported code must include, if generate() cannot make the run."""

from __future__ import annotations

from typing import Any

from engine.declare.bundled_loop import BundledLoop
from engine.messages import Message
from engine.strategies.base import Strategy


def find_bundled_loop(strategy: Strategy, config: Any) -> BundledLoop | None:
    """Return the loop that exported code must include; None if generate() is equal."""
    # Modes that left transformers always need their loop, whatever the config.
    if strategy.moved_to and strategy.loop:
        return BundledLoop(
            strategy.loop,
            Message("transformers moved it to {repository}", repository=strategy.moved_to),
        )
    return strategy.own_loop(config)
