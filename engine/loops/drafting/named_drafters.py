"""The assisted loop with its drafter chosen by name, for callers with plain models."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch

from engine.loops.drafting.assistant import AssistantDrafter, EarlyExitDrafter
from engine.loops.drafting.assisted import assisted_loop
from engine.loops.drafting.confidence import CONSTANT
from engine.loops.drafting.draft_tree import read_shape
from engine.loops.drafting.drafter import Drafter, RunContext
from engine.loops.drafting.mtp import MtpDrafter
from engine.loops.drafting.prompt_lookup import PromptLookupDrafter
from engine.loops.drafting.tree_drafter import TreeDrafter
from engine.loops.drafting.universal import IntersectionDrafter, ReencodingDrafter
from engine.loops.recorder import Recorder
from engine.models.model_types import (
    GenerationConfig,
    Model,
    Processors,
    StoppingCriteria,
    Tokenizer,
)
from engine.models.mtp_heads import load_heads
from engine.models.text import Pieces
from engine.trace.records import Step


@dataclass(frozen=True)
class ModelWithTokenizer:
    """A model and its tokenizer, with the attributes the universal drafters need."""

    model: Any
    tokenizer: Any

    @cached_property
    def pieces(self) -> Pieces:
        """Display pieces of the tokenizer."""
        return Pieces(self.tokenizer)

    @property
    def vocab_size(self) -> int:
        """Rows of the output distribution."""
        return int(self.model.config.get_text_config(decoder=True).vocab_size)

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        """End-of-sequence ids of the model."""
        eos: Any = self.model.generation_config.eos_token_id
        eos = getattr(self.model.config, "eos_token_id", None) if eos is None else eos
        if eos is None:
            return ()
        return (eos,) if isinstance(eos, int) else tuple(eos)


def drafted_loop(
    model: Model,
    input_ids: torch.Tensor,
    logits_processor: Processors,
    stopping_criteria: StoppingCriteria,
    generation_config: GenerationConfig,
    *,
    recorder: Recorder,
    generator: torch.Generator,
    drafter: str,
    assistant_confidence_schedule: str = CONSTANT,
    assistant_model: Model | None = None,
    tokenizer: Tokenizer | None = None,
    assistant_tokenizer: Tokenizer | None = None,
    **model_kwargs: Any,
) -> Generator[Step, None, torch.Tensor]:
    """Decode one sequence in rounds of drafting and verification; see ``assisted_loop``.

    Args:
        model: the target.
        input_ids: (1, length) prompt ids.
        logits_processor: applied at every verified position.
        stopping_criteria: checked after every token.
        generation_config: ``do_sample``, the budget and the draft settings.
        recorder: records every round.
        generator: the run's random generator.
        drafter: speculative, prompt_lookup, early_exit, mtp or universal_assisted.
        assistant_confidence_schedule: constant or adaptive (speculative).
        assistant_model: the draft model, if the drafter needs one.
        tokenizer: the target's tokenizer (universal_assisted).
        assistant_tokenizer: the draft model's tokenizer (universal_assisted).
        model_kwargs: as generate() prepared them.

    Yields:
        One Step per round.

    Returns:
        (1, length + new) ids.
    """
    target, draft = (
        ModelWithTokenizer(model, tokenizer),
        ModelWithTokenizer(assistant_model, assistant_tokenizer),
    )
    return (
        yield from assisted_loop(
            model,
            input_ids,
            logits_processor,
            stopping_criteria,
            generation_config,
            recorder=recorder,
            generator=generator,
            make_drafter=partial(
                _make_drafter, drafter, target, draft, assistant_confidence_schedule
            ),
            **model_kwargs,
        )
    )


def draft_tree_loop(
    model: Model,
    input_ids: torch.Tensor,
    logits_processor: Processors,
    stopping_criteria: StoppingCriteria,
    generation_config: GenerationConfig,
    *,
    draft_tree_depth: int,
    draft_tree_top_k: int,
    draft_tree_nodes: int,
    draft_tree_widths: str | None,
    assistant_model: Model,
    **more: Any,
) -> Generator[Step, None, torch.Tensor]:
    """Decode one sequence in rounds of drafting a tree and walking through it; see ``assisted_loop``.

    Args:
        model: the target.
        input_ids: (1, length) prompt ids.
        logits_processor: applied at every place of the branch that is followed.
        stopping_criteria: checked after every token.
        generation_config: ``do_sample`` and the budget.
        draft_tree_depth: most guesses in a row.
        draft_tree_top_k: guesses after each guess, and guesses of a level that are continued.
        draft_tree_nodes: most guesses in a tree.
        draft_tree_widths: a fixed shape; see ``read_shape``.
        assistant_model: the draft model.
        more: further arguments of ``assisted_loop``.

    Yields:
        One Step per round.

    Returns:
        (1, length + new) ids.
    """
    shape = read_shape(draft_tree_depth, draft_tree_top_k, draft_tree_nodes, draft_tree_widths)
    rules = logits_processor, stopping_criteria, generation_config
    make = partial(TreeDrafter, model=assistant_model, shape=shape)
    return (yield from assisted_loop(model, input_ids, *rules, make_drafter=make, **more))


def _make_drafter(
    name: str,
    target: ModelWithTokenizer,
    draft: ModelWithTokenizer,
    confidence: str,
    context: RunContext,
) -> Drafter:
    if name == "speculative":
        return AssistantDrafter(context, draft.model, confidence=confidence)
    if name == "mtp":
        return MtpDrafter(context, load_heads(context.model))
    if name == "universal_assisted":
        kind = IntersectionDrafter if context.do_sample else ReencodingDrafter
        return kind(context, target, draft)
    return EarlyExitDrafter(context) if name == "early_exit" else PromptLookupDrafter(context)
