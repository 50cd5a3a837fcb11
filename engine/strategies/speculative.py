"""Speculative decoding: a draft model proposes tokens, the target model checks them in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.loops.drafting.assistant import AssistantDrafter
from engine.loops.drafting.assisted import assisted_loop
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


def prepare(context: Context) -> dict[str, Any]:
    """Return the drafter that uses the draft model.

    Raises:
        ModelError: the tokenizers of both models differ.
    """
    check_same_tokenizer(context.target, context.assistant)
    model = context.assistant.model

    def make(run: RunContext) -> AssistantDrafter:
        return AssistantDrafter(run, model)

    return {"make_drafter": make, "after": make_report_hook(context.config, make)}


STRATEGY = Strategy(
    name="speculative",
    title="Speculative decoding",
    short="Speculative",
    plain_name="Faster: small model",
    group="faster",
    summary=(
        "A small model drafts a few tokens; the large one reads them all in a single forward pass "
        "and keeps the part it agrees with, plus one token of its own. The text is exactly what the "
        "large model alone would have written (with sampling: exactly its distribution), only in "
        "fewer of its expensive passes."
    ),
    helps=(
        "It helps when a small model often agrees with a large one that is slow: in “A draft "
        "that is usually right” {speculative-1.tokens_per_forward} tokens come from every "
        "pass of the target, in “A hard prompt” {speculative-2.tokens_per_forward}. It hurts "
        "only speed, where most drafts are rejected; the text stays the target's own."
    ),
    turns=(
        "Draft tokens is how many tokens are guessed before the target checks them. More of "
        "them pay as long as they are accepted; after the first wrong one the rest is lost."
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
            "Most tiles are accepted: several tokens come from every pass of the target.",
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
            "Far from what it was trained on the draft is often wrong: most of its work is lost.",
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
            "Two more after a round in which all were right, one fewer after a rejection.",
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
            "Every tile is kept while u is at most p / q; 200 short runs check the distribution.",
        ),
    ),
    visuals=("draft_timeline", "candidates", "xray", "formula", "draw"),
    assistant="same_tokenizer",
    default_assistant="storyteller-draft",
)
