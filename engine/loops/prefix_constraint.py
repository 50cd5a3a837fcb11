"""Processors that allow some tokens only: a ``prefix_allowed_tokens_fn``, and grammars."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# torch does not say what Tensor.tolist() returns.
from __future__ import annotations

import copy
from typing import Any

import torch
import transformers

from engine.loops.recorder import display_name
from engine.models.model_types import Processors


def make_prefix_allowed_tokens_fn(
    sequences: tuple[tuple[int, ...], ...],
    prompt_length: int,
    eos: tuple[int, ...],
    vocab_size: int,
) -> Any:
    """Return a ``prefix_allowed_tokens_fn``: the output must be one of ``sequences``, then end.

    Args:
        sequences: allowed outputs as ids.
        prompt_length: ids before the output (1 for encoder-decoder models).
        eos: end-of-sequence ids; without any, every token may follow a complete sequence.
        vocab_size: size of the vocabulary.
    """

    def allowed(batch_id: int, ids: torch.Tensor) -> list[int]:
        del batch_id
        written: list[int] = ids[prompt_length:].tolist()
        so_far, n = tuple(written), len(written)
        following = {s[n] for s in sequences if len(s) > n and s[:n] == so_far}
        # Discarded beams and drafts ask too; an empty list would fail the run, so they get EOS.
        done = any(s == so_far[: len(s)] for s in sequences)
        following |= set(eos) if done or not following else set()
        return sorted(following) or list(range(vocab_size))

    return allowed


CONSTRAINTS = {
    "PrefixConstrained": "prefix_allowed_tokens_fn",
    "Grammar": "structured_outputs",
}
"""Display names of the processors that allow some tokens only, and their parameters."""


def mask_by_constraints(
    processors: Processors, input_ids: torch.Tensor, logits: torch.Tensor
) -> torch.Tensor | None:
    """Return (batch, vocab) bools: the tokens that every constraint allows; None without any.

    Args:
        processors: those of a run; all but constraints are left out.
        input_ids: (batch, length) ids so far.
        logits: (batch, vocab).
    """
    # By name, as exported loops know no class of a package that they do not need.
    found = [one for one in processors if display_name(one) in CONSTRAINTS]
    if not found:
        return None
    scores = torch.zeros_like(logits)
    for one in found:
        scores = one(input_ids, scores)
    return scores > -torch.inf


def fit_processors(processors: Processors, rows: int) -> list[Any]:
    """Return the processors adapted to a batch of another size.

    Args:
        processors: transformers' own, made by generate() for one prompt.
        rows: size of the batch they will see.
    """

    def fitted(processor: Any) -> Any:
        if not isinstance(processor, transformers.PrefixConstrainedLogitsProcessor):
            return processor
        # It views the batch in groups of the number of rows it was made for.
        other: Any = copy.copy(processor)
        other._num_beams = rows
        return other

    return [fitted(processor) for processor in processors]
