"""Multi-token prediction: heads on the model itself propose the next tokens."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from engine.errors import ModelError
from engine.loops.drafting.assisted import assisted_loop
from engine.loops.drafting.lossless_check import make_report_hook
from engine.loops.drafting.mtp import MtpDrafter
from engine.models.hashes import check_embedded_files
from engine.models.meta_model import CONSTRUCTION_LOCK
from engine.models.mtp_heads import SUFFIX, NoHeadsError, load_heads
from engine.sources.source import Embedded
from engine.strategies.base import STORY, Context, Preset, Strategy
from engine.strategies.drafting_params import (
    DraftingParams,
    drafting_generate_kwargs,
    make_bundled_loop_chooser,
)

_UNREADABLE = (AttributeError, KeyError, OSError, RuntimeError, TypeError, ValueError)
"""What transformers raises for damaged heads, and for layers that it cannot build heads from."""


@dataclass(frozen=True, kw_only=True)
class MtpConfig(DraftingParams):
    """Parameters of drafting by heads: as many tokens as the model has heads, always."""


def prepare(context: Context) -> dict[str, Any]:
    """Return the drafter that uses the model's heads.

    Raises:
        ModelError: the weights of the heads are missing.
    """
    target = context.target
    if isinstance(target.source, Embedded):
        check_embedded_files(target.name + SUFFIX)
    try:
        with CONSTRUCTION_LOCK:
            # Heads are built like a model, during which a second thread could lose weights.
            heads = load_heads(target.model)
    except NoHeadsError as error:
        raise ModelError(
            "The files of {name} have no weights for its heads.", name=target.name
        ) from error
    except _UNREADABLE as error:
        raise ModelError(
            "The heads of {name} cannot be loaded ({kind}).",
            name=target.name,
            kind=type(error).__name__,
        ) from error
    make = partial(MtpDrafter, heads=heads)
    return {"make_drafter": make, "after": make_report_hook(context.config, make)}


STRATEGY = Strategy(
    name="mtp",
    title="Multi-token prediction",
    short="Multi-token",
    plain_name="Extra heads",
    group="faster",
    summary=(
        "Small heads on top of the model guess the next tokens from its own last state, and the "
        "model checks the guesses in its next pass. No second model is needed."
    ),
    helps=(
        "It helps when a model was trained with such heads: they cost little and know what the "
        "model is about to say. In “Heads that know the story” each pass yields "
        "{mtp-1.tokens_per_forward} tokens. It hurts only speed, when most guesses are rejected."
    ),
    turns=(
        "The number of heads sets how many tokens are guessed; it comes with the model and "
        "cannot be changed."
    ),
    paper="Gloeckle et al. 2024, arXiv 2404.19737",
    config=MtpConfig,
    loop=assisted_loop,
    own_loop=make_bundled_loop_chooser("mtp"),
    generate_kwargs=drafting_generate_kwargs,
    prepare=prepare,
    needs=("decoder_only", "rewind", "layers_without_state", "heads"),
    presets=(
        Preset(
            "Heads that know the story",
            "The little bear opened the door and saw",
            {"max_new_tokens": 60},
            "Three heads guess after every pass. Most rounds add all three words and one more.",
            look_at=4,
        ),
        Preset(
            "A hard prompt",
            "The committee of seven astronomers voted to",
            {"max_new_tokens": 60},
            "On unfamiliar text the heads are wrong more often, so fewer words come with a pass.",
            look_at=4,
        ),
        Preset(
            "Sampling, and is it the same?",
            STORY,
            {"max_new_tokens": 50, "do_sample": True, "top_k": 0, "distribution_runs": 200},
            "A guess is kept if its random number is at most p / q. Then 200 short runs check "
            "the distribution.",
            look_at=3,
        ),
    ),
    visuals=("draft_round", "draft_timeline", "candidates", "xray", "formula", "draw"),
)
