"""Multinomial sampling: draw the next token from the (reshaped) distribution."""

from __future__ import annotations

from dataclasses import dataclass

from engine.loops.next_token import next_token_loop
from engine.strategies.base import STORY, Preset, Strategy
from engine.strategies.shared_params import NextTokenParams, SamplingParams


@dataclass(frozen=True, kw_only=True)
class SamplingConfig(SamplingParams, NextTokenParams):
    """The filters that reshape the distribution before the draw."""


STRATEGY = Strategy(
    name="sampling",
    title="Sampling",
    plain_name="Sample",
    group="sample",
    summary=(
        "Draw the next token at random, likely ones more often than rare ones. Same seed, "
        "same text: change the seed for another one."
    ),
    helps=(
        "It helps stories and conversation, where many continuations are good and the "
        "likeliest is dull. It hurts where one answer is right, because every seed writes "
        "another text. At a high temperature it takes tokens that the model almost ruled "
        "out. The text of “Cool and careful” has a perplexity of {sampling-1.perplexity}, "
        "that of “Hot and wild” one of {sampling-2.perplexity}."
    ),
    turns=(
        "A low temperature favours likely tokens, a high one gives rare tokens a chance. "
        "Close to 0 this is greedy search."
    ),
    paper="Holtzman et al. 2020, arXiv 1904.09751 (nucleus); Fan et al. 2018, arXiv 1805.04833 (top-k)",
    config=SamplingConfig,
    dials=("temperature", "top_p"),
    loop=next_token_loop,
    one_shape=True,
    shares=True,
    generate_kwargs=lambda config: {"do_sample": True, "num_beams": 1},
    presets=(
        Preset(
            "Cool and careful",
            STORY,
            {"max_new_tokens": 60, "temperature": 0.5},
            "Low temperature: close to greedy.",
            look_at=10,
        ),
        Preset(
            "Hot and wild",
            STORY,
            {"max_new_tokens": 60, "temperature": 1.6, "top_k": 0},
            "High temperature without filters: rare tokens get through and the story breaks.",
            look_at=15,
        ),
        Preset(
            "Nucleus",
            STORY,
            {"max_new_tokens": 60, "top_k": 0, "top_p": 0.9},
            "Top-p keeps few tokens when the model is sure and many when it is not.",
            look_at=10,
        ),
        Preset(
            "Three at once",
            "The little bear opened the door and saw",
            {"max_new_tokens": 40, "num_return_sequences": 3},
            "Three texts, drawn at once.",
        ),
        Preset(
            "Without the obvious",
            STORY,
            {"max_new_tokens": 60, "xtc_probability": 0.5, "xtc_threshold": 0.1},
            "XTC tosses a coin at each step. On heads it removes the likeliest tokens: all above "
            "its threshold but the last.",
            look_at=4,
        ),
        Preset(
            "Hot, but steered",
            STORY,
            {"max_new_tokens": 60, "temperature": 1.6, "top_k": 0, "mirostat_tau": 2.0},
            "As hot as “Hot and wild”, but Mirostat keeps the surprise near its target: the story "
            "stays readable.",
            look_at=12,
        ),
    ),
    visuals=("candidates", "xray", "formula", "draw", "chart"),
)
