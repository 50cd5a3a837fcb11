"""Self-speculative decoding: the first layers of the target model draft for all of its layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.declare.params import Integer, param
from engine.errors import ParameterError
from engine.loops.drafting.assistant import EarlyExitDrafter
from engine.loops.drafting.assisted import assisted_loop
from engine.loops.drafting.lossless_check import make_report_hook
from engine.messages import Message
from engine.strategies.base import Context, Preset, Strategy
from engine.strategies.drafting_params import (
    EnsembleParams,
    drafting_generate_kwargs,
    make_bundled_loop_chooser,
)


@dataclass(frozen=True, kw_only=True)
class EarlyExitConfig(EnsembleParams):
    """Exit layer of the draft, and the drafting parameters."""

    assistant_early_exit: int = param(
        Integer(
            label="Exit layer",
            minimum=1,
            maximum=256,
            slider_maximum=15,
            help="How many layers run before the model guesses through its final norm and head.",
        ),
        4,
    )


def prepare(context: Context) -> dict[str, Any]:
    """Return the drafter that uses the target's first layers.

    Raises:
        ParameterError: the model has no such layer before its last.
    """
    target, layer = context.target, context.config.assistant_early_exit
    # The last layer is no early exit: the draft would be the model itself.
    if layer >= target.layers:
        allowed = Message(
            "it must be from 1 to {last}: {model} has {n} layers",
            last=target.layers - 1,
            model=target.name,
            n=target.layers,
        )
        raise ParameterError("assistant_early_exit", layer, allowed)
    return {
        "make_drafter": EarlyExitDrafter,
        "after": make_report_hook(context.config, EarlyExitDrafter),
    }


STRATEGY = Strategy(
    name="early_exit",
    title="Early exit (self-speculation)",
    short="Early exit",
    plain_name="Early layer",
    group="faster",
    summary=(
        "The model's first layers guess, and the whole model checks the guesses in one "
        "pass. This pays off when early layers often know the next token, as in models "
        "trained for it (LayerSkip)."
    ),
    helps=(
        "It helps when you have no second model. Each full pass yields "
        "{early_exit-1.tokens_per_forward} tokens when the model guesses after layer 4, "
        "{early_exit-2.tokens_per_forward} after layer 8. It hurts speed when the early "
        "layers are often wrong, as in models not trained for it."
    ),
    turns=(
        "Exit layer is the layer after which the model guesses. An early one is fast but "
        "often wrong, a late one nearly as slow as the whole model."
    ),
    paper="Elhoushi et al. 2024, arXiv 2404.16710",
    config=EarlyExitConfig,
    dials=("assistant_early_exit",),
    loop=assisted_loop,
    own_loop=make_bundled_loop_chooser("early_exit"),
    generate_kwargs=drafting_generate_kwargs,
    prepare=prepare,
    needs=("decoder_only", "rewind", "exits", "layers_without_state"),
    presets=(
        Preset(
            "Exit after layer 4",
            "The little bear opened the door and saw",
            {
                "max_new_tokens": 60,
                "assistant_early_exit": 4,
                "num_assistant_tokens": 4,
                "assistant_confidence_threshold": 0.0,
                "plain_run": True,
            },
            "Fast guesses that are wrong more often.",
            look_at=3,
        ),
        Preset(
            "Exit after layer 8",
            "The little bear opened the door and saw",
            {
                "max_new_tokens": 60,
                "assistant_early_exit": 8,
                "num_assistant_tokens": 4,
                "assistant_confidence_threshold": 0.0,
                "plain_run": True,
            },
            "Half the layers: slower guesses, but more of them are right.",
            look_at=7,
        ),
        Preset(
            "Exit after layer 12",
            "The little bear opened the door and saw",
            {
                "max_new_tokens": 60,
                "assistant_early_exit": 12,
                "num_assistant_tokens": 4,
                "assistant_confidence_threshold": 0.0,
                "plain_run": True,
            },
            "Guesses best, but saves almost nothing: it runs most of the model.",
            look_at=3,
        ),
    ),
    visuals=("draft_round", "draft_timeline", "candidates", "xray", "formula", "draw"),
)
