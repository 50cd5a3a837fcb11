"""Beam search: keep the best few texts at every step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.declare.bundled_loop import BundledLoop
from engine.declare.params import TokenLists, param
from engine.errors import ParameterError
from engine.loops.beams.constrained import constrained_beam_loop
from engine.loops.beams.search import beam_loop
from engine.strategies.base import Context, Preset, Strategy
from engine.strategies.beam_params import (
    VISUALS,
    BeamParams,
    check_vocabulary_size,
    declare_num_beams,
)


@dataclass(frozen=True, kw_only=True)
class BeamSearchConfig(BeamParams):
    """Parameters of beam search, with optional words that the text must contain."""

    num_beams: int = declare_num_beams(1)
    force_words_ids: tuple[Any, ...] | None = param(
        TokenLists(
            label="Must contain",
            help=(
                "Words the text must contain. Give each as text with a space before it, as ids, or "
                "as a list of alternatives."
            ),
            group="tokens",
            optional=True,
            nested=True,
            maximum_items=8,
            maximum_length=16,
        ),
        None,
    )

    def check(self) -> None:
        super().check()
        if self.force_words_ids and self.num_beams < 2:
            raise ParameterError(
                "num_beams", self.num_beams, "words that must occur need at least 2 beams"
            )


def _beam_search_loop(*args: Any, force_words_ids: Any = None, **kwargs: Any) -> Any:
    if force_words_ids:
        return constrained_beam_loop(*args, force_words_ids=force_words_ids, **kwargs)
    return beam_loop(*args, **kwargs)


def _prepare(context: Context) -> dict[str, Any]:
    check_vocabulary_size(context)
    return {"force_words_ids": context.config.force_words_ids}


def _choose_bundled_loop(config: BeamSearchConfig, spare: int | None) -> BundledLoop | None:
    del spare
    why = "transformers moved it to transformers-community/constrained-beam-search"
    return BundledLoop(constrained_beam_loop, why) if config.force_words_ids else None


STRATEGY = Strategy(
    name="beam_search",
    title="Beam search",
    short="Beams",
    group="beams",
    summary=(
        "Keep several texts at once, extend each and keep the most probable ones again. "
        "This finds more probable texts than greedy search, but not always better ones."
    ),
    helps=(
        "It helps when the most probable text is the right one, as in translating or "
        "repairing a sentence. In “Better than greedy” the winner scores "
        "{beam_search-1.score} and the greedy path {beam_search-1.greedy_score}. It hurts "
        "open-ended text, where the most probable text is short or dull. Every beam adds a "
        "row to every forward pass."
    ),
    turns=(
        "Beams is the number of texts kept at every step. One beam is greedy search; more "
        "usually find a more probable text, but not always."
    ),
    paper="Graves 2012, arXiv 1211.3711; forced words: Post & Vilar 2018, arXiv 1804.06609",
    config=BeamSearchConfig,
    dials=("num_beams",),
    loop=_beam_search_loop,
    one_shape=True,
    generate_kwargs=lambda config: {"do_sample": False, "num_beams": config.num_beams},
    prepare=_prepare,
    reorders=True,
    presets=(
        Preset(
            "Better than greedy",
            "One day, a little boy found a",
            {"max_new_tokens": 24, "num_beams": 5},
            "The winner starts with a less likely token than the greedy path, yet is more "
            "probable as a whole.",
            look_at=3,
        ),
        Preset(
            "Longer wins",
            "They all went home and",
            {
                "max_new_tokens": 48,
                "num_beams": 4,
                "length_penalty": 3.0,
                "early_stopping": "never",
            },
            "A high length penalty lets a longer text win.",
            look_at=37,
        ),
        Preset(
            "One beam is greedy",
            "One day, a little boy found a",
            {"max_new_tokens": 24, "num_beams": 1},
            "With one beam there is nothing to compare, so this is greedy search.",
        ),
        Preset(
            "It must contain a dragon",
            "Once upon a time, there was a little girl",
            {"max_new_tokens": 32, "num_beams": 6, "force_words_ids": [" dragon"]},
            "The search also keeps candidates that bring in the required word.",
        ),
        Preset(
            "Mend a sentence",
            "jane wss sad and she was very emarrassed.",
            {"max_new_tokens": 60, "num_beams": 4},
            "Where a letter is missing, the beams keep several readings until the rest of the "
            "sentence decides.",
            model="storyfixer",
            look_at=11,
        ),
    ),
    visuals=VISUALS,
    own_loop=_choose_bundled_loop,
)
