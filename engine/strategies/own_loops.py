"""Which runs transformers' generate() cannot make by itself."""

from __future__ import annotations

from typing import Any

from engine.declare.own_loop import OwnLoop
from engine.strategies.base import Strategy


def own_loop_of(strategy: Strategy, config: Any) -> OwnLoop | None:
    """Return the loop that has to come along with a strategy and its config, None where there is no need."""
    if strategy.moved_to and strategy.loop:
        return OwnLoop(strategy.loop, f"transformers moved it to {strategy.moved_to}")
    return strategy.own_loop(config)
