"""Parameters, checks and export rules shared by the drafting strategies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.declare.bundled_loop import BundledLoop, ChooseLoop
from engine.declare.params import Choice, Flag, Integer, Number, param, params_of
from engine.errors import ModelError, ParameterError
from engine.loops.drafting.confidence import ADAPTIVE, CONSTANT
from engine.loops.drafting.named_drafters import draft_tree_loop, drafted_loop
from engine.messages import Message
from engine.strategies.shared_params import (
    NextTokenParams,
    SamplingParams,
    refuse_last_filters,
)

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel


@dataclass(frozen=True, kw_only=True)
class DraftingParams(SamplingParams, NextTokenParams):
    """Greedy or sampled verification, and the optional measurements after the run."""

    do_sample: bool = param(
        Flag(label="Sample", help="Draw tokens (rejection sampling) instead of taking the best."),
        False,
    )
    plain_run: bool = param(
        Flag(
            label="Measure plain decoding",
            group="advanced",
            help="Afterwards run the same prompt without a draft and compare the speed.",
        ),
        False,
    )
    distribution_runs: int = param(
        Integer(
            label="Same distribution?",
            group="advanced",
            minimum=0,
            maximum=2000,
            help=(
                "With sampling: afterwards draw two tokens this many times, and compare them with "
                "the main model's exact distribution. 0 is off."
            ),
        ),
        0,
    )

    def check(self) -> None:
        super().check()
        if self.num_return_sequences > 1:
            raise ParameterError(
                "num_return_sequences",
                self.num_return_sequences,
                "drafting decodes one sequence at a time, so it must be 1",
            )
        if self.guidance_scale not in (None, 1.0):
            raise ParameterError(
                "guidance_scale",
                self.guidance_scale,
                "guidance keeps a running state that rejected drafts would spoil, so it must be off",
                "sampling and greedy accept it",
            )
        if self.do_sample:
            refuse_last_filters(
                self,
                Message(
                    "drafting checks several tokens at once, and this filter needs one after the other"
                ),
            )
        if self.distribution_runs and not self.do_sample:
            raise ParameterError(
                "distribution_runs",
                self.distribution_runs,
                "greedy search has one outcome and no distribution to compare",
                "turn do_sample on",
            )


@dataclass(frozen=True, kw_only=True)
class DraftModelParams(DraftingParams):
    """Draft length of a draft model."""

    num_assistant_tokens: int = param(
        Integer(
            label="Draft tokens",
            plain_label="Guesses per pass",
            minimum=1,
            maximum=64,
            slider_maximum=24,
            help="How many tokens to guess before the main model checks them.",
        ),
        20,
    )
    num_assistant_tokens_schedule: str = param(
        Choice(
            label="Draft schedule",
            choices=("constant", "heuristic", "heuristic_transient"),
            help="heuristic: two more after a fully accepted round, otherwise one fewer.",
        ),
        "constant",
    )
    assistant_confidence_threshold: float = param(
        Number(
            label="Draft confidence",
            minimum=0,
            maximum=1,
            help=(
                "A draft ends after a token that the draft model gives less probability than this; "
                "0 is off."
            ),
        ),
        0.4,
    )


@dataclass(frozen=True, kw_only=True)
class EnsembleParams(DraftModelParams):
    """Verification against a mixture of both models; it needs the draft model's probabilities."""

    assistant_ensemble_weight: float | None = param(
        Number(
            label="Ensemble weight",
            optional=True,
            group="advanced",
            minimum=0,
            maximum=1,
            above_minimum=True,
            below_maximum=True,
            help=(
                "Accept more by judging drafts with w·p + (1 − w)·q instead of p. The text is then "
                "no longer the main model's own; empty keeps it."
            ),
        ),
        None,
    )


def draft_model_settings(config: DraftingParams) -> dict[str, Any]:
    """Return the draft model's generation_config settings; empty without a draft model."""
    if not isinstance(config, DraftModelParams):
        return {}
    shared = params_of(DraftingParams)
    # transformers reads these from the draft model's own configuration; as arguments of generate() they
    # would have no effect.
    return {n: getattr(config, n) for n in params_of(DraftModelParams) if n not in shared}


def drafting_generate_kwargs(config: DraftingParams) -> dict[str, Any]:
    """Return the arguments of generate() that select greedy or sampled verification."""
    return {"do_sample": config.do_sample, "num_beams": 1}


def make_bundled_loop_chooser(drafter: str) -> ChooseLoop:
    """Return ``Strategy.own_loop`` for a drafting strategy.

    Args:
        drafter: name of the drafter, as in loops/drafting/named_drafters.py.
    """

    def choose(config: DraftingParams, spare: int | None) -> BundledLoop | None:
        del spare
        if getattr(config, "draft_tree", False):
            why = "transformers does not draft trees"
            return BundledLoop(draft_tree_loop, why)
        if drafter == "universal_assisted" and config.do_sample:
            why = (
                "sampling across tokenizers in transformers does not keep the main model's "
                "distribution"
            )
        elif drafter == "mtp":
            why = "transformers cannot read heads that are stored at 8 bits"
        elif config.stop_strings:
            why = "transformers runs past a stop string that ends inside a draft"
        elif getattr(config, "assistant_confidence_schedule", CONSTANT) == ADAPTIVE:
            why = "transformers tunes the confidence only where scikit-learn is installed"
        else:
            return None
        return BundledLoop(drafted_loop, why, {"drafter": drafter})

    return choose


def check_same_tokenizer(target: LoadedModel, assistant: LoadedModel) -> None:
    """Check that every token id means the same text in both models.

    Raises:
        ModelError: the tokenizers differ; the message names the first differing id.
    """
    # Names and sizes do not prove equality, so the vocabularies are compared entry by entry.
    pair = {"assistant": assistant.name, "target": target.name}
    if target.tokenizer is None or assistant.tokenizer is None:
        if target.vocab_size != assistant.vocab_size:
            raise ModelError(
                "{assistant} cannot draft for {target} here: their vocabularies have {one} and "
                "{other} entries.",
                **pair,
                one=assistant.vocab_size,
                other=target.vocab_size,
            )
        return
    ours, theirs = target.tokenizer.get_vocab(), assistant.tokenizer.get_vocab()
    if ours == theirs:
        return
    # Vocabularies are unordered, so the first difference is the smallest differing id.
    by_id = {token_id: token for token, token_id in theirs.items()}
    others = (token_id for token, token_id in ours.items() if by_id.get(token_id) != token)
    different = min(others, default=len(ours))
    raise ModelError(
        "{assistant} cannot draft for {target} here: their tokenizers differ from id {id} on; "
        "universal_assisted translates.",
        **pair,
        id=different,
    )
