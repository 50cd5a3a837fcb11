"""DoLa: decoding by the contrast of the last layer with an earlier one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.declare.params import Flag, Param, param
from engine.errors import ParameterError
from engine.loops.dola import dola_loop, model_candidate_layers
from engine.messages import Message
from engine.strategies.base import STORY, Context, Preset, Strategy
from engine.strategies.shared_params import NextTokenParams, SamplingParams

MAX_LAYERS = 64
MAX_LAYER_INDEX = 1023


@dataclass(frozen=True, kw_only=True)
class LayerChoice(Param):
    """``low``, ``high`` or a list of layer numbers."""

    def describe_range(self) -> str:
        return Message(
            "low, high or a list of 1 to {n} layer numbers from 0 to {last}",
            n=MAX_LAYERS,
            last=MAX_LAYER_INDEX,
        )

    def parse(self, value: object) -> str | tuple[int, ...]:
        if isinstance(value, str):
            if value not in ("low", "high"):
                raise ValueError
            return value
        if not isinstance(value, Sequence):
            raise TypeError
        if len(value) == 1 and isinstance(value[0], str):
            return self.parse(value[0])
        if not 1 <= len(value) <= MAX_LAYERS:
            raise ValueError
        return tuple(_parse_layer(item) for item in value)


def _parse_layer(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):  # True is an int, too
        raise TypeError
    if not 0 <= value <= MAX_LAYER_INDEX:
        raise ValueError
    return value


@dataclass(frozen=True, kw_only=True)
class DolaConfig(SamplingParams, NextTokenParams):
    """Candidate layers of the contrast, which is then decoded greedily or sampled.

    The paper suggests a repetition_penalty of 1.2.
    """

    dola_layers: str | tuple[int, ...] = param(
        LayerChoice(
            label="Layers",
            plain_label="Layers compared",
            help=(
                "Layers that may be compared with the last: low, high, or a list such as [2, 4, "
                "6]. 0 is the embedding's output."
            ),
        ),
        "high",
    )
    do_sample: bool = param(
        Flag(label="Sample", help="Draw from the contrast instead of taking the best token."), False
    )

    def check(self) -> None:
        super().check()
        if self.num_return_sequences > 1 and not self.do_sample:
            raise ParameterError(
                "num_return_sequences",
                self.num_return_sequences,
                "without sampling there is one outcome, so it must be 1",
                "turn do_sample on",
            )


def prepare(context: Context) -> dict[str, Any]:
    """Check that ``dola_layers`` selects a layer of the model; return no extra arguments.

    Raises:
        ParameterError: ``dola_layers`` selects none of the model's layers.
    """
    target, chosen = context.target, context.config.dola_layers
    if not model_candidate_layers(target.model, chosen):
        raise ParameterError(
            "dola_layers",
            chosen if isinstance(chosen, str) else list(chosen),
            Message(
                "it must leave a layer from 0 to {last}: {model} has {n} layers",
                last=target.layers - 1,
                model=target.name,
                n=target.layers,
            ),
            "give a list of layers" if isinstance(chosen, str) else "",
        )
    return {}


STRATEGY = Strategy(
    name="dola",
    title="DoLa (contrasting layers)",
    short="DoLa",
    plain_name="Late layers",
    group="layers",
    summary=(
        "Compare the last layer with an earlier one, and prefer tokens whose probability "
        "grew most in between. It was made for large models; here it shows how a "
        "prediction forms."
    ),
    helps=(
        "It was made for large models, whose late layers often add a fact. It hurts small "
        "models, whose late layers know little more. The paper finds no gain for GPT-2 "
        "(appendix N). The text of “How a token forms” has a perplexity of "
        "{dola-1.perplexity}."
    ),
    turns=(
        "Layers are those that may be compared with the last; the most different one is "
        "used at each step. The paper uses high layers for short factual answers and low "
        "ones for long reasoning."
    ),
    paper="Chuang et al. 2023, arXiv 2309.03883",
    config=DolaConfig,
    dials=("dola_layers",),
    loop=dola_loop,
    one_shape=True,
    generate_kwargs=lambda config: {"do_sample": config.do_sample, "num_beams": 1},
    prepare=prepare,
    presets=(
        Preset(
            "How a token forms",
            STORY,
            {"max_new_tokens": 60, "dola_layers": "high", "repetition_penalty": 1.2},
            "The map shows the token's rank in every layer. Easy tokens lead early, hard ones "
            "only in the last layer.",
            look_at=3,
        ),
        Preset(
            "Contrast with low layers",
            STORY,
            {"max_new_tokens": 60, "dola_layers": "low", "repetition_penalty": 1.2},
            "Layers 2 to 6 are available; the outlined one is compared with the last.",
            look_at=3,
        ),
        Preset(
            "One layer only, sampled",
            "The little bear opened the door and saw",
            {
                "max_new_tokens": 60,
                "dola_layers": [12],
                "do_sample": True,
                "top_k": 0,
                "repetition_penalty": 1.2,
            },
            "With one layer in the list there is no choice of layer. The token is drawn from "
            "the contrast.",
            look_at=13,
        ),
    ),
    visuals=("layer_heatmap", "candidates", "xray", "formula", "draw", "chart"),
    moved_to="transformers-community/dola",
    one_by_one=True,
    needs=("decoder_only", "shows_layers"),
)
