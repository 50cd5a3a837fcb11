"""Universal assisted decoding: speculative decoding with a draft model of another tokenizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.errors import ModelError
from engine.loops.drafting.assisted import assisted_loop
from engine.loops.drafting.drafter import RunContext
from engine.loops.drafting.lossless_check import make_report_hook
from engine.loops.drafting.universal import IntersectionDrafter, ReencodingDrafter, UniversalDrafter
from engine.strategies.base import Context, Preset, Strategy
from engine.strategies.drafting_params import (
    DraftModelParams,
    drafting_generate_kwargs,
    make_bundled_loop_chooser,
)


@dataclass(frozen=True, kw_only=True)
class UniversalAssistedConfig(DraftModelParams):
    """Parameters of drafting; draft tokens are counted in the draft model's vocabulary."""


def prepare(context: Context) -> dict[str, Any]:
    """Return the drafter: re-encoding if greedy, vocabulary intersection if sampling.

    Raises:
        ModelError: one of the models has no tokenizer.
    """
    target, assistant = context.target, context.assistant
    if target.tokenizer is None or assistant.tokenizer is None:
        raise ModelError("universal_assisted needs the tokenizers of both models.")
    # p and q can be compared only over tokens that both vocabularies have.
    drafter = IntersectionDrafter if context.config.do_sample else ReencodingDrafter

    def make(run: RunContext) -> UniversalDrafter:
        return drafter(run, target, assistant)

    return {"make_drafter": make, "after": make_report_hook(context.config, make)}


STRATEGY = Strategy(
    name="universal_assisted",
    title="Universal assisted",
    short="Universal",
    plain_name="Other tokenizer",
    group="faster",
    summary=(
        "Speculative decoding with a draft model that cuts text into other tokens. Its "
        "guesses are translated into the main model's tokens."
    ),
    helps=(
        "It helps when the only small model you have cuts text differently. In “Re-encoded "
        "drafts” each pass of the main model yields "
        "{universal_assisted-1.tokens_per_forward} tokens. It hurts speed, because every "
        "guess is turned into text and encoded again. What does not survive that is lost."
    ),
    turns=(
        "Draft tokens counts the draft model's tokens; the main model may cut the same "
        "text into more or fewer. With sampling, the draft model proposes only tokens that "
        "both vocabularies have."
    ),
    paper="Timor et al. 2025, arXiv 2502.05202",
    config=UniversalAssistedConfig,
    dials=("num_assistant_tokens",),
    loop=assisted_loop,
    own_loop=make_bundled_loop_chooser("universal_assisted"),
    generate_kwargs=drafting_generate_kwargs,
    prepare=prepare,
    needs=("decoder_only", "rewind"),
    draft_needs=("decoder_only",),
    presets=(
        Preset(
            "Re-encoded drafts",
            "Tom and his mom were in the kitchen. Tom wanted to",
            {"max_new_tokens": 60, "num_assistant_tokens": 6, "plain_run": True},
            "The two rows show how each tokenizer cuts the same text.",
            look_at=6,
        ),
        Preset(
            "The shared vocabulary",
            "Tom and his mom were in the kitchen. Tom wanted to",
            {
                "max_new_tokens": 40,
                "do_sample": True,
                "top_k": 0,
                "num_assistant_tokens": 4,
                "assistant_confidence_threshold": 0.0,
                "distribution_runs": 100,
            },
            "The draft model proposes only tokens that both models have. The distribution "
            "stays the main model's own.",
            look_at=2,
        ),
    ),
    visuals=("draft_round", "draft_timeline", "candidates", "xray", "formula", "draw"),
    assistant="any_tokenizer",
    default_assistant="foreign-draft",
)
