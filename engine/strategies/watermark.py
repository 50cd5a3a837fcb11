"""Watermarking: text with a statistical mark that only the holder of the key can detect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.declare.config import config_to_dict
from engine.declare.params import Choice, Flag, Integer, Number, TokenIds, param
from engine.errors import ParameterError
from engine.loops.watermark import watermark_loop
from engine.messages import Message
from engine.statistics.watermark_statistics import Z_THRESHOLD
from engine.strategies.base import Context, Preset, Strategy
from engine.strategies.shared_params import NextTokenParams, SamplingParams
from engine.watermark import processors
from engine.watermark.schemes import GreenList, SynthId, scheme_from_config

if TYPE_CHECKING:
    from engine.watermark.schemes import Scheme

MAX_KEY = 2**32 - 1


@dataclass(frozen=True, kw_only=True)
class SynthIdKeys(TokenIds):
    """SynthID's keys, one per tournament round."""

    maximum_items: int = 64

    def describe_range(self) -> str:
        return Message(
            "a list of 1 to {n} whole numbers from 0 to {most}", n=self.maximum_items, most=MAX_KEY
        )

    def parse(self, value: object) -> tuple[int, ...]:
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise TypeError
        keys = super().parse(list(value))
        if max(keys) > MAX_KEY:
            raise ValueError
        return keys


@dataclass(frozen=True, kw_only=True)
class SchemeParams:
    """Choice of the watermark scheme."""

    scheme: str = param(
        Choice(
            label="Watermark",
            choices=("greenlist", "synthid"),
            help="Green lists by Kirchenbauer et al., or SynthID-Text by Google DeepMind.",
            papers=("2301.10226", "2306.04634"),
        ),
        "greenlist",
    )


@dataclass(frozen=True, kw_only=True)
class GreenListParams:
    """Parameters of transformers' WatermarkingConfig."""

    greenlist_ratio: float = param(
        Number(
            label="Green share",
            minimum=0,
            maximum=1,
            above_minimum=True,
            below_maximum=True,
            help="Green lists: share of the vocabulary that is green at every step.",
        ),
        GreenList.greenlist_ratio,
    )
    bias: float = param(
        Number(
            label="Bias",
            plain_label="Strength",
            minimum=0,
            maximum=20,
            slider_maximum=8,
            step=0.1,
            help=(
                "Green lists: the number added to the logit of every green token. More is easier "
                "to detect but costs more quality; 0 marks nothing."
            ),
        ),
        GreenList.bias,
    )
    seeding_scheme: str = param(
        Choice(
            label="Seeding",
            choices=("lefthash", "selfhash"),
            help=(
                "Green lists: the last token chooses the list, or the token itself with those "
                "before it (slower)."
            ),
        ),
        GreenList.seeding_scheme,
    )
    context_width: int = param(
        Integer(
            label="Context width",
            minimum=1,
            maximum=16,
            slider_maximum=8,
            help=(
                "Green lists: tokens of an n-gram, without the new one (lefthash) or with it "
                "(selfhash). Lefthash seeds with the last one alone."
            ),
        ),
        GreenList.context_width,
    )
    hashing_key: int = param(
        Integer(
            label="Key",
            minimum=1,
            maximum=MAX_KEY,
            help="Green lists: the secret number. Another key finds nothing.",
        ),
        GreenList.hashing_key,
    )
    ignore_repeated_ngrams: bool = param(
        Flag(
            label="Count n-grams once",
            help="Green lists: count a repeated n-gram only the first time, as it adds nothing new.",
        ),
        False,
    )


@dataclass(frozen=True, kw_only=True)
class SynthIdParams:
    """Parameters of transformers' SynthIDTextWatermarkingConfig."""

    ngram_len: int = param(
        Integer(
            label="N-gram length",
            minimum=2,
            maximum=16,
            help="SynthID: tokens of an n-gram, including the new one.",
        ),
        SynthId.ngram_len,
    )
    keys: tuple[int, ...] = param(
        SynthIdKeys(label="Keys", help="SynthID: one secret number per round of the tournament."),
        SynthId.keys,
    )
    context_history_size: int = param(
        Integer(
            label="Context history",
            group="advanced",
            minimum=1,
            maximum=100_000,
            help=(
                "SynthID: how many contexts are remembered. A token after a remembered one is not "
                "marked."
            ),
        ),
        SynthId.context_history_size,
    )
    sampling_table_seed: int = param(
        Integer(
            label="Table seed",
            group="advanced",
            minimum=0,
            maximum=MAX_KEY,
            help="SynthID: seed of the table of random bits.",
        ),
        SynthId.sampling_table_seed,
    )
    sampling_table_size: int = param(
        Integer(
            label="Table size",
            group="advanced",
            minimum=256,
            maximum=2**24,
            help="SynthID: length of the table of random bits.",
        ),
        SynthId.sampling_table_size,
    )
    skip_first_ngram_calls: bool = param(
        Flag(
            label="Skip the first tokens",
            group="advanced",
            help="SynthID: leave the first tokens unmarked, as their context is incomplete.",
        ),
        SynthId.skip_first_ngram_calls,
    )
    debug_mode: bool = param(
        Flag(
            label="Uniform scores",
            group="advanced",
            help="SynthID, for tests: ignore the model's scores before marking.",
        ),
        SynthId.debug_mode,
    )


@dataclass(frozen=True, kw_only=True)
class WatermarkConfig(
    SynthIdParams, GreenListParams, SchemeParams, SamplingParams, NextTokenParams
):
    """Scheme, strength and key of the mark, and the threshold of its detection."""

    do_sample: bool = param(
        Flag(label="Sample", help="Draw the token. Off takes the best of the marked scores."), True
    )
    z_threshold: float = param(
        Number(
            label="z threshold",
            minimum=0,
            maximum=20,
            slider_maximum=10,
            step=0.1,
            help="A text counts as marked when its z-score is above this.",
        ),
        Z_THRESHOLD,
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
    """Check the green share and return the detector's counting settings as ``tally``.

    Raises:
        ParameterError: the green share leaves no token green.
    """
    config, target = context.config, context.target
    scheme = scheme_from_config(config_to_dict(config))
    check_greenlist_ratio(scheme, target.vocab_size)
    model = target.model.config
    # Encoder-decoder texts begin with the decoder's start token in place of a BOS token.
    first = "decoder_start_token_id" if target.is_encoder_decoder else "bos_token_id"
    tally = {
        "ignore_repeated_ngrams": config.ignore_repeated_ngrams,
        "bos_token_id": getattr(model, first, None),
        "eos_token_ids": tuple(config.eos_token_id or target.eos_token_ids),
    }
    return {"tally": tally}


def check_greenlist_ratio(scheme: Scheme, vocab_size: int) -> None:
    """Check that the green share makes at least one token of the vocabulary green.

    Raises:
        ParameterError: it makes none green; the message names the smallest allowed share.
    """
    if isinstance(scheme, GreenList) and int(vocab_size * scheme.greenlist_ratio) < 1:
        raise ParameterError(
            "greenlist_ratio",
            scheme.greenlist_ratio,
            Message(
                "with a vocabulary of {n} it must be at least {least}, or nothing is green",
                n=vocab_size,
                least=f"{1 / vocab_size:.3g}",
            ),
        )


KITCHEN_PROMPT = "Tom and his mom were in the kitchen. Tom wanted to"

STRATEGY = Strategy(
    name="watermark",
    title="Watermark",
    plain_name="Mark",
    group="mark",
    summary=(
        "Sample as usual, but favour the tokens that a secret key picks at every step. "
        "Readers notice nothing; with the key, you count more of these tokens than chance "
        "allows."
    ),
    helps=(
        "It helps you recognise later, with the key, that a text came from this model. "
        "After the tokens of “Green lists” z is {watermark-1.z}; without the mark it stays "
        "near 0. It hurts the text where the model is unsure. Where the model is sure, it "
        "cannot leave a mark."
    ),
    turns=(
        "Bias is added to the logit of every favoured (green) token. More is detected "
        "sooner but changes the text more; 0 marks nothing. SynthID-Text uses a tournament "
        "of secret bits instead."
    ),
    paper="Kirchenbauer et al. 2023, arXiv 2301.10226 and 2306.04634; Dathathri et al. 2024, Nature 634",
    config=WatermarkConfig,
    dials=("bias",),
    loop=watermark_loop,
    one_shape=True,
    shares=True,
    generate_kwargs=lambda config: {
        "do_sample": config.do_sample,
        "num_beams": 1,
        "watermarking_config": processors.to_watermarking_config(
            scheme_from_config(config_to_dict(config))
        ),
    },
    prepare=prepare,
    presets=(
        Preset(
            "Green lists",
            KITCHEN_PROMPT,
            {"max_new_tokens": 100, "bias": 2.5},
            "z climbs past the threshold within a few dozen tokens.",
            look_at=21,
        ),
        Preset(
            "Selfhash",
            KITCHEN_PROMPT,
            {"max_new_tokens": 100, "bias": 2.5, "seeding_scheme": "selfhash"},
            "Every token helps to choose its own list, so the key is harder to guess.",
            look_at=17,
        ),
        Preset(
            "Too faint",
            KITCHEN_PROMPT,
            {"max_new_tokens": 100, "bias": 0.5},
            "A bias of 0.5 is too weak to detect.",
            look_at=6,
        ),
        Preset(
            "Known by heart",
            "Once upon a time, there was a little girl named Lily. She",
            {"max_new_tokens": 100, "bias": 2.5},
            "The model is sure of almost every token of this story, so the same bias changes nothing.",
            look_at=4,
        ),
        Preset(
            "SynthID",
            KITCHEN_PROMPT,
            {"max_new_tokens": 100, "scheme": "synthid", "top_k": 0},
            "No green list: each token has nine secret bits. More of them are 1 than chance "
            "would give.",
            look_at=20,
        ),
    ),
    visuals=("watermark_chance", "watermark", "candidates", "xray", "formula", "draw", "chart"),
)
