"""The decode loop that exported code must include, if generate() cannot make the run."""

from __future__ import annotations

from typing import Any

from engine.declare.bundled_loop import BundledLoop
from engine.errors import EngineError
from engine.messages import Message
from engine.models.capabilities import Capabilities
from engine.models.meta_model import describe_model
from engine.sources.source import Source
from engine.strategies.base import Strategy
from engine.trace.records import Trace


def find_bundled_loop(
    strategy: Strategy, config: Any, spare: int | None = None
) -> BundledLoop | None:
    """Return the loop that exported code must include; None if generate() is equal.

    Args:
        strategy: one of STRATEGIES' values.
        config: its config dataclass.
        spare: positions that the model has left after the longest text; None if unlimited.
    """
    # Modes that left transformers always need their loop, whatever the config.
    if strategy.moved_to and strategy.loop:
        return BundledLoop(
            strategy.loop,
            Message("transformers moved it to {repository}", repository=strategy.moved_to),
        )
    return strategy.own_loop(config, spare)


def find_run_loop(
    strategy: Strategy, config: Any, trace: Trace, can: Capabilities | None
) -> BundledLoop | None:
    """Return the loop that the exported code of a run must include; None if generate() is equal.

    Args:
        strategy: one of STRATEGIES' values.
        config: its config dataclass.
        trace: the run.
        can: the capabilities of its model; see ``find_capabilities``.
    """
    if can is None or can.positions is None:
        return find_bundled_loop(strategy, config)
    start = 1 if trace.model.is_encoder_decoder else len(trace.prompt_ids)
    return find_bundled_loop(strategy, config, can.positions - start - config.max_new_tokens)


def find_capabilities(model: str) -> Capabilities | None:
    """Return a model's capabilities; None if no such model can be used on this machine."""
    source = Source.find(model)
    try:
        return None if source is None else describe_model(source)
    except EngineError:
        return None
