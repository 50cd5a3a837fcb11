"""Presets for comparing strategies side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.strategies import STRATEGIES
from engine.strategies.base import STORY

LABELS = ("A", "B", "C", "D")


@dataclass(frozen=True)
class ComparePreset:
    """A named comparison; offered only if all its strategies are registered."""

    name: str
    prompt: str
    columns: tuple[tuple[str, dict[str, Any]], ...]
    shows: str
    """One sentence: what to look at."""
    seed: int = 0


_PRESETS = (
    ComparePreset(
        "Greedy and three temperatures",
        STORY,
        (
            ("greedy", {"max_new_tokens": 40}),
            ("sampling", {"max_new_tokens": 40, "temperature": 0.5, "top_k": 0}),
            ("sampling", {"max_new_tokens": 40, "temperature": 1.0, "top_k": 0}),
            ("sampling", {"max_new_tokens": 40, "temperature": 1.6, "top_k": 0}),
        ),
        "The higher the temperature, the sooner the texts diverge and the less likely they are.",
    ),
    ComparePreset(
        "Beam search and greedy",
        "One day, a little boy found a",
        (
            ("beam_search", {"max_new_tokens": 24, "num_beams": 5}),
            ("greedy", {"max_new_tokens": 24}),
        ),
        "Beam search finds a more probable text, but needs more work.",
    ),
    ComparePreset(
        "With a watermark and without",
        STORY,
        (
            ("watermark", {"max_new_tokens": 60, "bias": 3.0}),
            ("sampling", {"max_new_tokens": 60}),
        ),
        "The mark has a price: the model itself finds marked text less likely.",
    ),
    ComparePreset(
        "Speculative and plain",
        "A brave little mouse lived under the old tree. One morning",
        (
            (
                "speculative",
                {
                    "max_new_tokens": 60,
                    "num_assistant_tokens": 6,
                    "assistant_confidence_threshold": 0.0,
                },
            ),
            ("greedy", {"max_new_tokens": 60}),
        ),
        "The same tokens from fewer passes of the main model.",
    ),
)


def available_presets() -> list[ComparePreset]:
    """Return the presets whose strategies are all registered."""
    return [p for p in _PRESETS if all(name in STRATEGIES for name, _ in p.columns)]
