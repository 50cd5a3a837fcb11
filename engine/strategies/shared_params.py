"""Parameters that many strategies share: length and stopping, penalties, sampling filters.

Names and meanings are those of transformers' GenerationConfig; the ranges are this project's
(docs/strategies.md). A filter declares its parameters in its own file in ``engine/processors``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, make_dataclass
from typing import Any

from engine.declare.groups import PROMPT_GROUP
from engine.declare.params import Choice, Integer, Number, Strings, param
from engine.declare.special_tokens import SPECIAL_TOKENS
from engine.declare.tokens import Tokens
from engine.errors import ParameterError
from engine.messages import Message
from engine.processors import FILTERS, PENALTIES, SAMPLING
from engine.processors.filter import Filter
from engine.processors.thinking_budget import SWITCHES
from engine.settings import SETTINGS


def _field_of(name: str) -> Any:
    """Return the config field of a filter with one parameter."""
    [made] = FILTERS[name].params.values()
    return made


@dataclass(frozen=True, kw_only=True)
class LengthParams:
    """Stopping rules of a run."""

    max_new_tokens: int = param(
        Integer(
            label="New tokens",
            help="The longest text to write, in tokens. generate() writes 20 if none is set.",
            minimum=1,
            maximum=SETTINGS.max_new_tokens,
            slider_maximum=256,
        ),
        64,
    )
    min_new_tokens: int | None = _field_of("MinNewTokensLength")
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
    exponential_decay_length_penalty: tuple[int, float] | None = _field_of(
        "ExponentialDecayLengthPenalty"
    )
    eos_token_id: tuple[int, ...] | None = param(
        Tokens(
            label="End tokens",
            help="Tokens that end the text, as ids or as text. Off means the model's own.",
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


def _make_params_class(name: str, about: str, filters: Iterable[Filter]) -> Any:
    """Return a config class whose fields are the parameters of some filters."""
    # From the filters themselves, so that a new one needs no line here.
    fields = [(n, Any, made) for one in filters for n, made in one.params.items()]
    own = {"__doc__": about, "__module__": __name__}
    return make_dataclass(name, fields, namespace=own, frozen=True, kw_only=True)


PenaltyParams = _make_params_class(
    "PenaltyParams", "Filters that every kind of search can use.", PENALTIES
)
_SamplingFilters = _make_params_class(
    "_SamplingFilters", "Filters that act only when tokens are sampled.", SAMPLING
)


@dataclass(frozen=True, kw_only=True)
class SamplingParams(_SamplingFilters):
    """Filters that act only when tokens are sampled."""

    def check(self) -> None:
        super().check()
        if self.mirostat_tau is not None and self.adaptive_target is not None:
            why = "Mirostat steers the draws already, so one of the two must be off"
            raise ParameterError("adaptive_target", self.adaptive_target, why)


def refuse_last_filters(config: Any, why: str) -> None:
    """Refuse the filters that depend on a coin or on earlier draws; see ``Filter.last``.

    Args:
        config: a strategy's config with the parameters of ``SamplingParams``.
        why: the reason, as the end of a sentence.

    Raises:
        ParameterError: one of them is on.
    """
    for one in SAMPLING:
        value = getattr(config, one.parameter)
        if one.last and value != one.off:
            raise ParameterError(one.parameter, value, why, "sampling and watermark accept it")


@dataclass(frozen=True, kw_only=True)
class NextTokenParams(PenaltyParams, LengthParams):
    """Parameters of every strategy with one running sequence per output."""

    special_tokens: str | None = param(
        Choice(
            label="Special tokens in the text",
            help=(
                "“text” reads typed special tokens as plain text, “parse” as the model's own. Off "
                "means “text” on public pages and in messages, otherwise “parse”."
            ),
            group=PROMPT_GROUP,
            choices=SPECIAL_TOKENS,
            optional=True,
        ),
        None,
    )
    num_return_sequences: int = param(
        Integer(
            label="Sequences",
            help="How many texts to write.",
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
        self._check_thinking()

    def _check_thinking(self) -> None:
        budget, least = self.thinking_token_budget, self.min_thinking_tokens
        if self.reasoning_budget_message is not None and budget is None:
            why = "it is written at thinking_token_budget, which is off"
            raise ParameterError("reasoning_budget_message", self.reasoning_budget_message, why)
        if least is not None and budget is not None and least > budget:
            most = Message("it must be at most thinking_token_budget = {n}", n=budget)
            raise ParameterError("min_thinking_tokens", least, most)
        # These are rules for the whole text, and a thought is part of it.
        rules = ("structured_outputs", "prefix_allowed_tokens_fn")
        rule = next((name for name in rules if getattr(self, name) is not None), None)
        for name in SWITCHES if rule else ():
            if getattr(self, name) is not None:
                why = Message("{rule} is on, which allows no text but its own", rule=rule)
                raise ParameterError(name, getattr(self, name), why)
