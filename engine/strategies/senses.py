"""Presets for a model that looks at a picture; they stand beside a strategy's own where it is on this machine."""

from __future__ import annotations

from engine.strategies.base import Preset

MODEL = "captioner"
"""What all of them ask."""

SIGHTS: dict[str, tuple[Preset, ...]] = {
    "greedy": (
        Preset(
            "Say what is in a picture",
            "",
            {"max_new_tokens": 30},
            "An encoder looks at the picture, the decoder writes: the same sentence every time. Try one of yours.",
            model=MODEL,
            image="example:scene-1",
        ),
    ),
    "sampling": (
        Preset(
            "One picture, many sentences",
            "",
            {"max_new_tokens": 30, "temperature": 1.0, "top_k": 0},
            "Another seed looks elsewhere in the same picture. What the picture leaves open has a wide distribution.",
            model=MODEL,
            image="example:scene-2",
        ),
    ),
    "beam_search": (
        Preset(
            "The best of four descriptions",
            "",
            {"max_new_tokens": 30, "num_beams": 4},
            "Four descriptions of one picture are kept side by side; the tree shows where they part.",
            model=MODEL,
            image="example:scene-3",
        ),
    ),
}
"""Strategy -> its presets."""
