"""The registry: every strategy in teaching order."""

from __future__ import annotations

from engine.strategies import (
    early_exit,
    greedy,
    prompt_lookup,
    sampling,
    speculative,
    universal_assisted,
)
from engine.strategies.base import Strategy

STRATEGIES: dict[str, Strategy] = {
    module.STRATEGY.name: module.STRATEGY
    for module in (greedy, sampling, speculative, prompt_lookup, early_exit, universal_assisted)
}
