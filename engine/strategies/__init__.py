"""The strategy registry, in teaching order."""

from __future__ import annotations

from engine.strategies import (
    beam_sampling,
    beam_search,
    contrastive_search,
    custom,
    diverse_beam_search,
    dola,
    early_exit,
    greedy,
    masked_diffusion,
    mtp,
    prompt_lookup,
    sampling,
    speculative,
    universal_assisted,
    watermark,
)
from engine.strategies.base import Strategy

STRATEGIES: dict[str, Strategy] = {
    module.STRATEGY.name: module.STRATEGY
    for module in (
        greedy,
        sampling,
        beam_search,
        beam_sampling,
        diverse_beam_search,
        contrastive_search,
        dola,
        speculative,
        prompt_lookup,
        early_exit,
        mtp,
        universal_assisted,
        masked_diffusion,
        watermark,
        custom,
    )
}
