"""Speculative decoding: a draft model proposes tokens, the target model checks them in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.declare.params import Choice, param
from engine.loops.drafting.assistant import AssistantDrafter
from engine.loops.drafting.assisted import assisted_loop
from engine.loops.drafting.confidence import CONFIDENCE_SCHEDULES, CONSTANT
from engine.loops.drafting.drafter import RunContext
from engine.loops.drafting.lossless_check import make_report_hook
from engine.strategies.base import Context, Preset, Strategy
from engine.strategies.drafting_params import (
    EnsembleParams,
    check_same_tokenizer,
    drafting_generate_kwargs,
    make_bundled_loop_chooser,
)


@dataclass(frozen=True, kw_only=True)
class SpeculativeConfig(EnsembleParams):
    """Parameters of drafting by a model with the target's tokenizer."""

    assistant_confidence_schedule: str = param(
        Choice(
            label="Confidence schedule",
            group="advanced",
            choices=CONFIDENCE_SCHEDULES,
            help=(
                "adaptive: after every round the threshold becomes the one that would have cost "
                "the fewest passes so far. transformers does so wherever scikit-learn is installed."
            ),
        ),
        CONSTANT,
    )


def prepare(context: Context) -> dict[str, Any]:
    """Return the drafter that uses the draft model.

    Raises:
        ModelError: the tokenizers of both models differ.
    """
    check_same_tokenizer(context.target, context.assistant)
    model, schedule = context.assistant.model, context.config.assistant_confidence_schedule

    def make(run: RunContext) -> AssistantDrafter:
        return AssistantDrafter(run, model, confidence=schedule)

    return {"make_drafter": make, "after": make_report_hook(context.config, make)}


STRATEGY = Strategy(
    name="speculative",
    title="Speculative decoding",
    short="Speculative",
    plain_name="Small model",
    group="faster",
    summary=(
        "A small draft model guesses several tokens, and the main model checks them in one "
        "pass. The text is exactly the main model's own, but needs fewer of its slow "
        "passes."
    ),
    helps=(
        "It helps when a small model often agrees with a slow main model. In “A draft that "
        "is usually right” each pass of the main model yields "
        "{speculative-1.tokens_per_forward} tokens, in “A hard prompt” "
        "{speculative-2.tokens_per_forward}. It hurts only speed, when most guesses are "
        "rejected. With sampling, the distribution stays exactly the main model's own."
    ),
    turns=(
        "Draft tokens is how many tokens are guessed before the main model checks them. "
        "More pay off while they are accepted; after the first wrong one the rest is lost."
    ),
    paper="Leviathan et al. 2023, arXiv 2211.17192; Chen et al. 2023, arXiv 2302.01318",
    config=SpeculativeConfig,
    dials=("num_assistant_tokens",),
    loop=assisted_loop,
    own_loop=make_bundled_loop_chooser("speculative"),
    generate_kwargs=drafting_generate_kwargs,
    prepare=prepare,
    needs=("decoder_only", "rewind"),
    draft_needs=("decoder_only",),
    presets=(
        Preset(
            "A draft that is usually right",
            "A brave little mouse lived under the old tree. One morning",
            {
                "max_new_tokens": 80,
                "num_assistant_tokens": 6,
                "plain_run": True,
                "assistant_confidence_threshold": 0.0,
            },
            "Most guesses are accepted, so every pass of the main model yields several tokens.",
            look_at=3,
        ),
        Preset(
            "A hard prompt",
            "The committee of seven astronomers voted to",
            {
                "max_new_tokens": 60,
                "num_assistant_tokens": 6,
                "plain_run": True,
                "assistant_confidence_threshold": 0.0,
            },
            "On unfamiliar text the draft model guesses badly, so little is saved.",
            look_at=8,
        ),
        Preset(
            "The draft adapts",
            "A brave little mouse lived under the old tree. One morning",
            {
                "max_new_tokens": 80,
                "num_assistant_tokens": 4,
                "num_assistant_tokens_schedule": "heuristic",
                "assistant_confidence_threshold": 0.0,
            },
            "The draft gets longer when it guesses right and shorter when it doesn't.",
            look_at=12,
        ),
        Preset(
            "Sampling, and is it the same?",
            "The little bear opened the door and saw",
            {
                "max_new_tokens": 50,
                "do_sample": True,
                "top_k": 0,
                "num_assistant_tokens": 5,
                "assistant_confidence_threshold": 0.0,
                "distribution_runs": 200,
            },
            "A guess is kept if its random number is at most p / q. Then 200 short runs check "
            "the distribution.",
            look_at=3,
        ),
    ),
    visuals=("draft_round", "draft_timeline", "candidates", "xray", "formula", "draw"),
    assistant="same_tokenizer",
    default_assistant="storyteller-draft",
)
