"""Groups of GenerationConfig fields that many strategies share.

Names and meanings are transformers' own; the ranges are this project's (docs/strategies.md).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.declare.params import (
    AllowedTokens,
    Biases,
    Decay,
    Flag,
    Integer,
    Number,
    Strings,
    Text,
    TokenIds,
    TokenLists,
    param,
)
from engine.errors import ParameterError
from engine.messages import Message
from engine.settings import SETTINGS
from engine.type_guards import is_list

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True, kw_only=True)
class LengthParams:
    """Stopping rules of a run."""

    max_new_tokens: int = param(
        Integer(
            label="New tokens",
            help="Most tokens to generate.",
            minimum=1,
            maximum=SETTINGS.max_new_tokens,
            slider_maximum=256,
        ),
        64,
    )
    min_new_tokens: int | None = param(
        Integer(
            label="Minimum tokens",
            help="End-of-sequence is forbidden before this many tokens.",
            group="length",
            minimum=0,
            maximum=SETTINGS.max_new_tokens,
            optional=True,
        ),
        None,
    )
    stop_strings: tuple[str, ...] | None = param(
        Strings(
            label="Stop strings",
            help="Stop when the text contains one of these.",
            group="length",
            optional=True,
        ),
        None,
    )
    max_time: float | None = param(
        Number(
            label="Max seconds",
            help="Stop after this many seconds.",
            group="length",
            minimum=0,
            above_minimum=True,
            maximum=SETTINGS.max_runtime_s,
            step=1,
            optional=True,
        ),
        None,
    )
    exponential_decay_length_penalty: tuple[int, float] | None = param(
        Decay(
            label="Length decay",
            group="length",
            optional=True,
            help="[start, factor]: end-of-sequence grows more likely after start tokens.",
        ),
        None,
    )
    eos_token_id: tuple[int, ...] | None = param(
        TokenIds(
            label="End tokens",
            help="Ids that end the text; off means the model's own.",
            group="length",
            optional=True,
            maximum_items=16,
        ),
        None,
    )

    def check(self) -> None:
        """Check combinations of fields; subclasses call super().check() first."""
        if self.min_new_tokens is not None and self.min_new_tokens > self.max_new_tokens:
            allowed = Message(
                "it must be at most max_new_tokens = {most}", most=self.max_new_tokens
            )
            raise ParameterError("min_new_tokens", self.min_new_tokens, allowed)


@dataclass(frozen=True, kw_only=True)
class PenaltyParams:
    """Processors that every kind of search can use."""

    repetition_penalty: float = param(
        Number(
            label="Repetition penalty",
            group="penalties",
            minimum=0.5,
            maximum=5,
            slider_maximum=2,
            step=0.05,
            help="Above 1 makes tokens that already occurred less likely.",
        ),
        1.0,
    )
    no_repeat_ngram_size: int = param(
        Integer(
            label="No-repeat n-gram",
            group="penalties",
            minimum=0,
            maximum=32,
            help="N-grams of this size may occur only once; 0 is off.",
        ),
        0,
    )
    encoder_repetition_penalty: float = param(
        Number(
            label="Encoder repetition penalty",
            group="penalties",
            minimum=0.5,
            maximum=5,
            step=0.05,
            help="Above 1 favours tokens of the prompt.",
        ),
        1.0,
    )
    encoder_no_repeat_ngram_size: int = param(
        Integer(
            label="Encoder no-repeat n-gram",
            group="penalties",
            minimum=0,
            maximum=32,
            help="N-grams of the encoder input may not occur in the output; 0 is off.",
        ),
        0,
    )
    bad_words_ids: tuple[Any, ...] | None = param(
        TokenLists(
            label="Banned words",
            help="Texts or id sequences that may not be generated. A text is banned however it is "
            "cut, with a space before it and without; (?i) before it means any case.",
            group="tokens",
            optional=True,
            maximum_items=SETTINGS.max_banned_sequences,
        ),
        None,
    )
    sequence_bias: tuple[Any, ...] | None = param(
        Biases(
            label="Sequence bias",
            group="tokens",
            optional=True,
            help="Adds a number to the logit that would complete a sequence.",
        ),
        None,
    )
    suppress_tokens: tuple[int, ...] | None = param(
        TokenIds(
            label="Suppressed ids",
            help="Ids that are never generated.",
            group="tokens",
            optional=True,
        ),
        None,
    )
    begin_suppress_tokens: tuple[int, ...] | None = param(
        TokenIds(
            label="Suppressed first ids",
            help="Ids that may not come first.",
            group="tokens",
            optional=True,
        ),
        None,
    )
    forced_bos_token_id: int | None = param(
        Integer(
            label="Forced first id",
            help="The first generated id (encoder-decoder models).",
            group="tokens",
            minimum=0,
            maximum=10_000_000,
            optional=True,
        ),
        None,
    )
    forced_eos_token_id: int | None = param(
        Integer(
            label="Forced last id",
            help="The id at max_new_tokens.",
            group="tokens",
            minimum=0,
            maximum=10_000_000,
            optional=True,
        ),
        None,
    )
    guidance_scale: float | None = param(
        Number(
            label="Guidance scale",
            group="advanced",
            minimum=-10,
            maximum=20,
            step=0.1,
            optional=True,
            help="Classifier-free guidance against the negative prompt; 1 is off.",
        ),
        None,
    )
    negative_prompt: str | None = param(
        Text(
            label="Negative prompt",
            help="What guidance pushes away from.",
            group="advanced",
            optional=True,
        ),
        None,
    )
    negative_prompt_ids: tuple[int, ...] | None = param(
        TokenIds(
            label="Negative prompt ids",
            help="The negative prompt as ids.",
            group="advanced",
            optional=True,
        ),
        None,
    )
    prefix_allowed_tokens_fn: Callable[..., Any] | tuple[Any, ...] | None = param(
        AllowedTokens(
            label="Allowed continuations",
            group="tokens",
            optional=True,
            help="The output must be one of these continuations.",
        ),
        None,
    )
    remove_invalid_values: bool = param(
        Flag(
            label="Remove NaN and inf",
            group="advanced",
            help="Replace NaN and infinite scores that a processor produced.",
        ),
        False,
    )
    renormalize_logits: bool = param(
        Flag(label="Renormalise", help="Normalise again after all processors.", group="advanced"),
        False,
    )


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """Warpers, which act only when tokens are sampled."""

    temperature: float = param(
        Number(
            label="Temperature",
            minimum=0.001,
            maximum=100,
            slider_maximum=3,
            step=0.01,
            help="Divides the logits: below 1 sharpens, above 1 flattens.",
        ),
        1.0,
    )
    top_k: int = param(
        Integer(
            label="Top-k",
            minimum=0,
            maximum=1_000_000_000,
            slider_maximum=200,
            help="Keep the k most probable tokens; 0 is off.",
        ),
        # The default of transformers' generate(do_sample=True).
        50,
    )
    top_p: float = param(
        Number(
            label="Top-p",
            minimum=0,
            above_minimum=True,
            maximum=1,
            help="Keep the smallest set of tokens that holds this probability.",
        ),
        1.0,
    )
    min_p: float | None = param(
        Number(
            label="Min-p",
            minimum=0,
            maximum=1,
            group="sampling",
            optional=True,
            help="Keep tokens of at least this share of the top probability.",
        ),
        None,
    )
    top_h: float | None = param(
        Number(
            label="Top-h",
            minimum=0,
            above_minimum=True,
            maximum=1,
            group="sampling",
            optional=True,
            help="Keep tokens up to this share of the entropy.",
        ),
        None,
    )
    typical_p: float = param(
        Number(
            label="Typical-p",
            minimum=0,
            above_minimum=True,
            maximum=1,
            group="sampling",
            help="Keep the tokens of most typical surprise.",
        ),
        1.0,
    )
    epsilon_cutoff: float = param(
        Number(
            label="Epsilon cutoff",
            minimum=0,
            maximum=1,
            below_maximum=True,
            step=0.0001,
            group="sampling",
            help="Drop tokens below this probability; 0 is off.",
        ),
        0.0,
    )
    eta_cutoff: float = param(
        Number(
            label="Eta cutoff",
            minimum=0,
            maximum=1,
            below_maximum=True,
            step=0.0001,
            group="sampling",
            help="Entropy-dependent cutoff; 0 is off.",
        ),
        0.0,
    )


@dataclass(frozen=True, kw_only=True)
class NextTokenParams(PenaltyParams, LengthParams):
    """Parameters of every strategy with one running sequence per output."""

    num_return_sequences: int = param(
        Integer(
            label="Sequences",
            help="How many outputs to return.",
            group="length",
            minimum=1,
            maximum=SETTINGS.max_return_sequences,
        ),
        1,
    )

    def check(self) -> None:
        super().check()
        for name in ("forced_bos_token_id", "forced_eos_token_id"):
            forced = getattr(self, name)
            if forced is not None and forced in (self.suppress_tokens or ()):
                raise ParameterError(name, forced, "it must not be one of suppress_tokens")


def config_to_dict(config: DataclassInstance) -> dict[str, Any]:
    """Return a config as JSON values: tuples become lists, callables their name."""
    return {f.name: _to_plain(getattr(config, f.name)) for f in dataclasses.fields(config)}


def _to_plain(value: object) -> Any:
    if is_list(value):
        return [_to_plain(item) for item in value]
    if callable(value):
        return f"<callable {getattr(value, '__name__', 'object')}>"
    return value
