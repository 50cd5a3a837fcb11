"""Contrastive search: probable tokens, minus a penalty for similarity to earlier ones."""

from __future__ import annotations

from dataclasses import dataclass

from engine.declare.params import Integer, Number, param
from engine.errors import ParameterError
from engine.loops.contrastive import contrastive_loop
from engine.strategies.base import STORY, Preset, Strategy
from engine.strategies.shared_params import NextTokenParams


@dataclass(frozen=True, kw_only=True)
class ContrastiveConfig(NextTokenParams):
    """Number of candidates and weight of the similarity penalty."""

    penalty_alpha: float = param(
        Number(
            label="Penalty alpha",
            plain_label="Dislike of repetition",
            minimum=0,
            maximum=1,
            step=0.05,
            help="Weight of the similarity to earlier tokens; 0 is greedy search.",
        ),
        0.6,
    )
    top_k: int = param(
        Integer(
            label="Candidates k",
            plain_label="Candidates compared",
            minimum=1,
            maximum=64,
            slider_maximum=16,
            help="How many tokens the model reads before one is chosen. More need more memory.",
        ),
        4,
    )

    def check(self) -> None:
        super().check()
        if self.num_return_sequences > 1:
            raise ParameterError(
                "num_return_sequences",
                self.num_return_sequences,
                "contrastive search has one outcome, so it must be 1",
                "sampling returns several",
            )


_LOOPING_PROMPT = "Row, row, row your boat. Row, row,"

STRATEGY = Strategy(
    name="contrastive_search",
    title="Contrastive search",
    short="Contrastive",
    plain_name="Avoid repeats",
    group="repeats",
    summary=(
        "Choose tokens that are likely and unlike the text so far. This ends loops without "
        "randomness, but the model must read several candidates at every step."
    ),
    helps=(
        "It helps long open-ended text to move on without chance. In “Not stuck: "
        "contrastive” {contrastive_search-1.rep_3} of the three-token groups repeat, "
        "against {contrastive_search-2.rep_3} for greedy search on the same prompt. It "
        "hurts speed, because the model reads every candidate before one is chosen. It "
        "works badly with models whose tokens all look alike."
    ),
    turns=(
        "Alpha is the weight of the penalty for resembling an earlier token. At 0 this is "
        "greedy search; close to 1 the model's own probability hardly counts."
    ),
    paper="Su et al. 2022, arXiv 2202.06417",
    config=ContrastiveConfig,
    dials=("penalty_alpha", "top_k"),
    loop=contrastive_loop,
    generate_kwargs=lambda config: {"do_sample": False, "num_beams": 1},
    presets=(
        Preset(
            "Not stuck: contrastive",
            _LOOPING_PROMPT,
            {"max_new_tokens": 100, "penalty_alpha": 0.6, "top_k": 6},
            "Greedy search loops on this prompt; here little repeats. The arcs show which "
            "earlier token made a candidate expensive.",
            look_at=14,
        ),
        Preset(
            "The same prompt, greedy",
            _LOOPING_PROMPT,
            {"max_new_tokens": 100, "penalty_alpha": 0.0, "top_k": 6},
            "Alpha 0 turns the penalty off. This is greedy search, and it loops.",
            look_at=46,
        ),
        Preset(
            "Too much penalty",
            STORY,
            {"max_new_tokens": 60, "penalty_alpha": 0.85, "top_k": 12},
            "Alpha too high: nothing repeats, but the story stops making sense.",
            look_at=5,
        ),
    ),
    visuals=("contrastive_pairs", "contrastive", "candidates", "xray", "formula", "draw", "chart"),
    moved_to="transformers-community/contrastive-search",
    one_by_one=True,
    reorders=True,
)
