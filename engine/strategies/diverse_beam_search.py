"""Diverse beam search: groups of beams with a penalty for choosing the same tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.declare.params import Integer, Number, param
from engine.errors import ParameterError
from engine.loops.beams.diverse import group_beam_loop
from engine.messages import Message
from engine.settings import SETTINGS
from engine.strategies.base import Context, Preset, Strategy
from engine.strategies.beam_params import VISUALS, BeamParams, check_vocabulary_size


@dataclass(frozen=True, kw_only=True)
class DiverseBeamConfig(BeamParams):
    """Parameters of beam search in groups."""

    num_beam_groups: int = param(
        Integer(
            label="Groups",
            help=(
                "How many groups the beams form. Groups are equally large and choose one after the "
                "other."
            ),
            minimum=2,
            maximum=SETTINGS.max_beams,
        ),
        2,
    )
    diversity_penalty: float = param(
        Number(
            label="Diversity penalty",
            plain_label="Push apart",
            help="The price of a token for each beam of an earlier group that took it at this step.",
            minimum=0,
            above_minimum=True,
            maximum=100,
            slider_maximum=10,
            step=0.1,
        ),
        1.0,
    )

    def check(self) -> None:
        super().check()
        if self.num_beams % self.num_beam_groups:
            raise ParameterError(
                "num_beam_groups",
                self.num_beam_groups,
                Message("it must divide num_beams = {beams}", beams=self.num_beams),
            )


def _prepare(context: Context) -> dict[str, Any]:
    check_vocabulary_size(context)
    config = context.config
    return {
        "num_beam_groups": config.num_beam_groups,
        "diversity_penalty": config.diversity_penalty,
    }


STRATEGY = Strategy(
    name="diverse_beam_search",
    title="Diverse beam search",
    short="Diverse beams",
    plain_name="Different beams",
    group="beams",
    summary=(
        "The beams form groups that choose one after the other. A token costs extra if an "
        "earlier group just took it, so the groups write different texts."
    ),
    helps=(
        "It helps when you want different texts to choose from. In “Different first words” "
        "the {diverse_beam_search-1.outputs} texts begin with "
        "{diverse_beam_search-1.first_words} different tokens. It hurts the probability of "
        "each text, because later groups pay for agreeing with earlier ones."
    ),
    turns=(
        "Diversity penalty is the price of a token for every beam of an earlier group that "
        "just chose it. At 0 all groups write the same texts."
    ),
    paper="Vijayakumar et al. 2016, arXiv 1610.02424",
    config=DiverseBeamConfig,
    dials=("diversity_penalty", "num_beam_groups"),
    loop=group_beam_loop,
    one_shape=True,
    generate_kwargs=lambda config: {"do_sample": False, "num_beams": config.num_beams},
    prepare=_prepare,
    reorders=True,
    presets=(
        Preset(
            "Different first words",
            "One day, a little boy found a",
            {
                "max_new_tokens": 20,
                "num_beams": 6,
                "num_beam_groups": 6,
                "diversity_penalty": 4.0,
                "num_return_sequences": 6,
            },
            "Six groups of one beam each: every text starts with a different word.",
        ),
        Preset(
            "Two groups of three",
            "One day, a little boy found a",
            {"max_new_tokens": 24, "num_beams": 6, "num_beam_groups": 2, "diversity_penalty": 1.0},
            "Beams of one group are alike, but the groups differ.",
            look_at=3,
        ),
    ),
    visuals=VISUALS,
    moved_to="transformers-community/group-beam-search",
)
