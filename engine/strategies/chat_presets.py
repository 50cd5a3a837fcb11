"""Chat presets, whose effects were measured on SmolLM2 135M Instruct.

They are offered if the model is on this machine. ``tests/engine/test_chat_presets.py`` tests each claim.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CHAT_MODEL = "smollm2"
"""The model of all chat presets."""
_CAPITAL = "What is the capital of France?"
_CAT = "Tell me a story about a cat."
_RAIN = "Write a short poem about rain."
_SEA = "Write one sentence about the sea."
_FOX = (
    "Copy this text word by word: The quick brown fox jumps over the lazy dog. The lazy dog sleeps."
    " The quick brown fox jumps over the lazy dog again."
)


_ROME = (
    "What is the capital of Italy?",
    "<think>\nItaly is a country in Europe. Its largest city is also its capital.\n</think>\n"
    "The capital of Italy is Rome.",
)
_DRAFTS = {"num_assistant_tokens": 3, "assistant_confidence_threshold": 0.0}


@dataclass(frozen=True)
class ChatPreset:
    """A named conversation whose effect a test measures."""

    name: str
    asks: str
    """The user's message."""
    params: Mapping[str, Any]
    shows: str
    """One sentence: what to look at."""
    seed: int = 0
    look_at: int = 1
    """Step at which the recorded run opens, counted from 1."""
    example: tuple[str, str] | None = None
    """A question before this one, and its answer, which shows the form of an answer."""
    begins: str = ""
    """How the model's answer begins."""

    @property
    def messages(self) -> list[dict[str, str]]:
        """The conversation in the format of a request."""
        said = [*(self.example or ()), self.asks, *([self.begins] if self.begins else [])]
        roles = ("user", "assistant", "user", "assistant")
        return [
            {"role": role, "content": content} for role, content in zip(roles, said, strict=False)
        ]


CHAT_PRESETS: dict[str, tuple[ChatPreset, ...]] = {
    "greedy": (
        ChatPreset(
            "Stuck in a poem",
            _RAIN,
            {"max_new_tokens": 60},
            "Chat models loop, too: most groups of three tokens in this poem repeat an earlier "
            "one.",
            look_at=21,
        ),
        ChatPreset(
            "Ask a question",
            _CAPITAL,
            {"max_new_tokens": 24},
            "A chat model answers in a few tokens and then stops by itself.",
        ),
        ChatPreset(
            "Think, but briefly",
            "Why is the sky blue?",
            {"max_new_tokens": 80, "thinking_token_budget": 12, "reasoning_budget_message": "\n"},
            "After 12 tokens the thinking section is closed, and the answer begins.",
            look_at=13,
            example=_ROME,
            begins="<think>\n",
        ),
    ),
    "sampling": (
        ChatPreset(
            "An answer, drawn",
            _SEA,
            {"max_new_tokens": 40, "temperature": 0.7, "top_k": 0},
            "At 0.7 the sentence makes sense. Compare it with the next example.",
            1,
            look_at=12,
        ),
        ChatPreset(
            "The same, too hot",
            _SEA,
            {"max_new_tokens": 40, "temperature": 1.5, "top_k": 0},
            "At 1.5, with all 49,152 tokens allowed, the words stop making sense.",
            1,
            look_at=2,
        ),
    ),
    "beam_search": (
        ChatPreset(
            "An answer better than the greedy one",
            _SEA,
            {"max_new_tokens": 24, "num_beams": 4},
            "The best of four beams is more probable per token than the greedy answer, and "
            "ends by itself.",
            look_at=6,
        ),
    ),
    "beam_sampling": (
        ChatPreset(
            "Drawn, but from the best",
            _SEA,
            {"max_new_tokens": 24, "num_beams": 4, "top_k": 0},
            "No temperature, no filter, and still a probable sentence: the best of the drawn "
            "beams stay.",
            1,
            look_at=7,
        ),
    ),
    "diverse_beam_search": (
        ChatPreset(
            "Four answers, four beginnings",
            _SEA,
            {
                "max_new_tokens": 20,
                "num_beams": 4,
                "num_beam_groups": 4,
                "diversity_penalty": 10.0,
                "num_return_sequences": 4,
            },
            "Each group pays for the words of the others: four answers with four first words.",
        ),
    ),
    "contrastive_search": (
        ChatPreset(
            "The poem goes on",
            _RAIN,
            {"max_new_tokens": 60, "penalty_alpha": 0.6, "top_k": 6},
            "Greedy search loops on this poem. Here no three tokens repeat, but some words are "
            "odd.",
            look_at=14,
        ),
    ),
    "dola": (
        ChatPreset(
            "The answer lost",
            _CAPITAL,
            {"max_new_tokens": 20, "dola_layers": "high", "repetition_penalty": 1.2},
            "DoLa was made for models fifty times as large. Compared with its upper layers, "
            "this one does not say Paris.",
        ),
        ChatPreset(
            "The answer kept",
            _CAPITAL,
            {"max_new_tokens": 20, "dola_layers": "low", "repetition_penalty": 1.2},
            "Compared with its lower layers, which know little about the answer, the model "
            "says Paris.",
        ),
    ),
    "early_exit": (
        ChatPreset(
            "A model that cannot be left early",
            _CAT,
            {"max_new_tokens": 24, "assistant_early_exit": 20, **_DRAFTS},
            "This model was not trained to answer early. After 20 of 30 layers, nearly every "
            "guess is wrong.",
            look_at=3,
        ),
        ChatPreset(
            "Three layers before the end",
            _CAT,
            {"max_new_tokens": 24, "assistant_early_exit": 27, **_DRAFTS},
            "After 27 of 30 layers about every second guess is right, but nearly all the work "
            "is done.",
            look_at=2,
        ),
    ),
    "universal_assisted": (
        ChatPreset(
            "Drafted by a teller of stories",
            _CAT,
            {"max_new_tokens": 32, **_DRAFTS},
            "The draft model is a hundred times smaller and has other tokens. In a story, "
            "about every fifth guess is right.",
            look_at=12,
        ),
    ),
    "watermark": (
        ChatPreset(
            "A marked story",
            _CAT,
            {"max_new_tokens": 60, "bias": 2.5},
            "A story can continue in many ways, so there is room for the mark. After 60 tokens "
            "z is far above the threshold.",
            look_at=20,
        ),
        ChatPreset(
            "What a mark costs",
            _CAPITAL,
            {"max_new_tokens": 24, "bias": 2.5},
            "Without the mark, the same seed says Paris. With it, the mark is detected but the "
            "answer is wrong.",
            look_at=8,
        ),
    ),
    "prompt_lookup": (
        ChatPreset(
            "Copy a text",
            _FOX,
            {"max_new_tokens": 40},
            "An answer that repeats the question needs about half as many passes as it has tokens.",
            look_at=3,
        ),
    ),
}
"""Strategy name -> its chat presets."""
