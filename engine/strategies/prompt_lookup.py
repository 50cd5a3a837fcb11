"""Prompt lookup decoding: drafts are copied from the prompt and the text so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.declare.bundled_loop import BundledLoop
from engine.declare.params import Integer, param
from engine.loops.drafting.assisted import assisted_loop
from engine.loops.drafting.lossless_check import make_report_hook
from engine.loops.drafting.named_drafters import drafted_loop
from engine.loops.drafting.prompt_lookup import PromptLookupDrafter
from engine.processors import SAMPLING
from engine.processors.filter import CUTS
from engine.strategies.base import Context, Preset, Strategy
from engine.strategies.drafting_params import (
    DraftingParams,
    drafting_generate_kwargs,
    make_bundled_loop_chooser,
)


@dataclass(frozen=True, kw_only=True)
class PromptLookupConfig(DraftingParams):
    """Number of copied tokens and length of the n-gram that must match."""

    prompt_lookup_num_tokens: int = param(
        Integer(
            label="Copied tokens",
            plain_label="Words copied",
            minimum=1,
            maximum=64,
            slider_maximum=24,
            help="How many tokens to copy from an earlier match.",
        ),
        10,
    )
    max_matching_ngram_size: int = param(
        Integer(
            label="Longest n-gram",
            minimum=1,
            maximum=16,
            help="How many trailing tokens must match at first; then fewer, down to 1.",
        ),
        2,
    )


def prepare(context: Context) -> dict[str, Any]:
    """Return the drafter, which needs no draft model."""
    return {
        "make_drafter": PromptLookupDrafter,
        "after": make_report_hook(context.config, PromptLookupDrafter),
    }


def _choose_bundled_loop(config: PromptLookupConfig, spare: int | None) -> BundledLoop | None:
    """Return the loop to export if transformers would drop copied tokens, or fail over them.

    transformers applies every warper to copied tokens, over equal made-up scores. Top-p and top-h
    then keep only some of them, and any warper drops what a penalty or a bias lowered.
    """
    why = None
    if config.do_sample and (
        _has_nucleus_filter(config) or (_has_score_shift(config) and _has_score_filter(config))
    ):
        why = "transformers asks the warpers about copied tokens over made-up scores and drops some"
    # The last draft follows a text that lacks at least two tokens.
    elif spare is not None and config.prompt_lookup_num_tokens > spare + 2:
        why = "transformers copies more tokens than the model has positions for"
    if why is None:
        return make_bundled_loop_chooser("prompt_lookup")(config, spare)
    return BundledLoop(drafted_loop, why, {"drafter": "prompt_lookup"})


def _has_nucleus_filter(config: PromptLookupConfig) -> bool:
    # What a filter of this project makes of equal scores is not known here.
    own = [one for one in SAMPLING if one.build is not None]
    named = config.top_p < 1 or config.top_h is not None
    return named or any(getattr(config, one.parameter) != one.off for one in own)


def _has_score_filter(config: PromptLookupConfig) -> bool:
    """Return True if a warper removes tokens by their score."""
    cuts = [one for one in SAMPLING if one.effect == CUTS]
    return any(getattr(config, one.parameter) != one.off for one in cuts)


def _has_score_shift(config: PromptLookupConfig) -> bool:
    """Return True if a processor changes scores without setting them to -inf."""
    penalties = (config.repetition_penalty, config.encoder_repetition_penalty)
    moved = (config.dry_multiplier, config.sequence_bias, config.exponential_decay_length_penalty)
    return any(penalty not in (None, 1) for penalty in penalties) or any(moved)


STRATEGY = Strategy(
    name="prompt_lookup",
    title="Prompt lookup",
    plain_name="Copy",
    group="faster",
    summary=(
        "Guess by copying what followed the last tokens earlier in the text; no draft "
        "model is needed. This pays off when the output repeats the input."
    ),
    helps=(
        "It helps when the answer repeats its input, as in summaries, edits, names and "
        "code. In “Where copying shines” each forward pass yields "
        "{prompt_lookup-1.tokens_per_forward} tokens, in “Where there is little to copy” "
        "{prompt_lookup-2.tokens_per_forward}. It hurts almost nothing, because looking up "
        "needs no model."
    ),
    turns=(
        "Longest n-gram is how many trailing tokens must match at first. Longer matches "
        "are rarer but more reliable."
    ),
    paper="Saxena 2023, github.com/apoorvumang/prompt-lookup-decoding; arXiv 2304.04487",
    config=PromptLookupConfig,
    dials=("prompt_lookup_num_tokens",),
    loop=assisted_loop,
    own_loop=_choose_bundled_loop,
    generate_kwargs=drafting_generate_kwargs,
    prepare=prepare,
    needs=("rewind",),
    presets=(
        Preset(
            "Where copying shines",
            "Row, row, row your boat. Row, row, row your boat. Row, row,",
            {"max_new_tokens": 60, "plain_run": True},
            "The text repeats itself, so whole copied drafts are accepted.",
            look_at=11,
        ),
        Preset(
            "Where there is little to copy",
            "Once upon a time, there was a little girl named Lily. She",
            {"max_new_tokens": 60, "plain_run": True},
            "New text: most rounds find no match or copy the wrong continuation.",
            look_at=15,
        ),
        Preset(
            "The longest match first",
            "The dog ran and ran and",
            {"max_new_tokens": 60, "max_matching_ngram_size": 4},
            "First the last four tokens must match, then fewer. The arc shows how many did.",
            look_at=19,
        ),
    ),
    visuals=("draft_round", "draft_timeline", "candidates", "xray", "formula", "draw"),
)
