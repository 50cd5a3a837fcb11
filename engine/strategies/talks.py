"""Presets for a model that answers: conversations whose effect was measured on SmolLM2 135M Instruct.

They stand beside a strategy's own where the model is on this machine; ``tests/engine/test_talks.py``
measures what each says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MODEL = "smollm2"
"""What all of them talk to."""
_SEA = "Write one sentence about the sea."
_FOX = (
    "Copy this text word by word: The quick brown fox jumps over the lazy dog. The lazy dog sleeps."
    " The quick brown fox jumps over the lazy dog again."
)


@dataclass(frozen=True)
class Talk:
    """A conversation to start from."""

    name: str
    asks: str
    """What the user says."""
    params: Mapping[str, Any]
    shows: str
    """One sentence: what to look at."""
    seed: int = 0

    @property
    def messages(self) -> list[dict[str, str]]:
        """The conversation, as a request takes it."""
        return [{"role": "user", "content": self.asks}]


TALKS: dict[str, tuple[Talk, ...]] = {
    "greedy": (
        Talk(
            "Ask a question",
            "What is the capital of France?",
            {"max_new_tokens": 24},
            "A model that was taught to answer: a few tokens, and the end mark ends the run by itself.",
        ),
    ),
    "sampling": (
        Talk(
            "An answer, drawn",
            _SEA,
            {"max_new_tokens": 40, "temperature": 0.7, "top_k": 0},
            "At 0.7 the sentence holds together. Compare it with the next one.",
            1,
        ),
        Talk(
            "The same, too hot",
            _SEA,
            {"max_new_tokens": 40, "temperature": 1.5, "top_k": 0},
            "At 1.5, with all 49,152 tokens allowed, the words stop making sense.",
            1,
        ),
    ),
    "prompt_lookup": (
        Talk(
            "Copy a text",
            _FOX,
            {"max_new_tokens": 40},
            "An answer that repeats the question needs about half as many passes as it has tokens.",
        ),
    ),
}
"""Strategy -> its conversations."""
