"""Greedy search: the most probable token at every step."""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import ParameterError
from engine.loops.next_token import next_token_loop
from engine.strategies.base import STORY, Preset, Strategy
from engine.strategies.shared_params import NextTokenParams


@dataclass(frozen=True, kw_only=True)
class GreedyConfig(NextTokenParams):
    """The common parameters; greedy search adds none."""

    def check(self) -> None:
        super().check()
        if self.num_return_sequences > 1:
            raise ParameterError(
                "num_return_sequences",
                self.num_return_sequences,
                "greedy has one outcome, so it must be 1",
                "sampling returns several",
            )


STRATEGY = Strategy(
    name="greedy",
    title="Greedy search",
    short="Greedy",
    group="greedy",
    summary=(
        "Always take the most likely token. This is fast and repeatable, but it never "
        "looks ahead and often falls into loops."
    ),
    helps=(
        "It helps when one answer is right and should be the same every time: a fact, a "
        "line of code. It hurts open-ended text, which starts to repeat itself. In “Stuck "
        "in a loop”, {greedy-2.rep_3} of all three-token groups repeat an earlier one."
    ),
    turns=(
        "Greedy search has no dial. A repetition penalty above 1 makes every token that "
        "already occurred less likely, even one that is needed."
    ),
    paper="the baseline of every decoding paper; loops are studied in Holtzman et al. 2020, arXiv 1904.09751",
    config=GreedyConfig,
    loop=next_token_loop,
    one_shape=True,
    shares=True,
    generate_kwargs=lambda config: {"do_sample": False, "num_beams": 1},
    presets=(
        Preset(
            "A story begins",
            STORY,
            {"max_new_tokens": 60},
            "The same text every time, whatever the seed.",
            look_at=10,
        ),
        Preset(
            "Stuck in a loop",
            "Sam and Sue liked to play in the garden. They",
            {"max_new_tokens": 80},
            "Watch the surprise fall as the text starts to repeat itself.",
            look_at=21,
        ),
        Preset(
            "The loop forbidden",
            "Sam and Sue liked to play in the garden. They",
            {"max_new_tokens": 80, "no_repeat_ngram_size": 3},
            "The same prompt, but no three tokens may repeat. The X-ray shows what the filter "
            "removed.",
            look_at=10,
        ),
        Preset(
            "Mend a sentence",
            "he showed it to mia ad said look, miia",
            {"max_new_tokens": 60},
            "The model repairs a damaged sentence. Influence shows which letters a word came from.",
            model="storyfixer",
            look_at=15,
        ),
        Preset(
            "The loop discouraged",
            "Sam and Sue liked to play in the garden. They",
            {"max_new_tokens": 80, "dry_multiplier": 0.8},
            "DRY makes a token less likely the longer the repeat is that it would continue. Short "
            "repeats stay, the loop does not.",
            look_at=10,
        ),
    ),
    visuals=("candidates", "xray", "formula", "draw", "chart"),
)
