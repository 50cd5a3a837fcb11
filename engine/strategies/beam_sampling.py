"""Beam-search multinomial sampling: candidates are drawn at random instead of ranked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.loops.beams.search import beam_loop
from engine.messages import Message
from engine.strategies.base import STORY, Context, Preset, Strategy
from engine.strategies.beam_params import VISUALS, BeamParams, check_vocabulary_size
from engine.strategies.shared_params import SamplingParams, refuse_last_filters


@dataclass(frozen=True, kw_only=True)
class BeamSamplingConfig(SamplingParams, BeamParams):
    """Parameters of beam search and the sampling filters."""

    def check(self) -> None:
        super().check()
        refuse_last_filters(self, Message("this filter follows one text, and beams have several"))


def _prepare(context: Context) -> dict[str, Any]:
    check_vocabulary_size(context)
    return {}


STRATEGY = Strategy(
    name="beam_sampling",
    title="Beam sampling",
    plain_name="Beams, sampled",
    group="beams",
    summary=(
        "Beam search, but the beams are drawn at random instead of ranked. It repeats less "
        "than beam search and is safer than sampling."
    ),
    helps=(
        "It helps when you want several probable texts that change with the seed. It hurts "
        "certainty, because chance may drop the best text. The result is neither the most "
        "probable text nor a fair sample of the model."
    ),
    turns=(
        "A higher temperature lets improbable continuations in more often. It acts on the "
        "scores before the beams are drawn."
    ),
    paper="Kool et al. 2019, arXiv 1903.06059 (sampling without replacement)",
    config=BeamSamplingConfig,
    dials=("temperature", "num_beams"),
    loop=beam_loop,
    one_shape=True,
    generate_kwargs=lambda config: {"do_sample": True, "num_beams": config.num_beams},
    prepare=_prepare,
    reorders=True,
    presets=(
        Preset(
            "Drawn beams",
            STORY,
            {"max_new_tokens": 32, "num_beams": 4},
            "Beams are drawn at random, so a weaker one can beat a stronger one.",
            look_at=4,
        ),
        Preset(
            "Hot beams",
            STORY,
            {"max_new_tokens": 32, "num_beams": 4, "temperature": 1.8},
            "A high temperature lets improbable texts in.",
            look_at=4,
        ),
    ),
    visuals=VISUALS,
)
