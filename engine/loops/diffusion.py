"""Masked diffusion: fills the hidden places of a text, the most certain first (LLaDA, 2502.09992)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from engine.loops.exponential_race import draw_tokens

LOW_CONFIDENCE, RANDOM, ENTROPY_BOUND = "low_confidence", "random", "entropy_bound"
REMASKING = (LOW_CONFIDENCE, RANDOM, ENTROPY_BOUND)
"""How a step chooses the guesses that stay hidden."""


@dataclass(frozen=True)
class DiffusionRule:
    """How the places are filled.

    Attributes:
        steps: forward passes for the whole text, at least one for every block; with an entropy bound,
            the most passes.
        block_length: places that are filled before the next ones; 0 is the whole text.
        remasking: one of REMASKING.
        entropy_bound: nats that the places of one step may leave open together.
        temperature: of the draw; 0 takes the most probable token.
    """

    steps: int
    block_length: int
    remasking: str
    entropy_bound: float
    temperature: float


@dataclass(frozen=True)
class Pass:
    """One forward pass over n hidden places of a block.

    Attributes:
        block: number of the block, from 0.
        places: (n,) positions, ascending.
        tokens: (n,) guesses.
        probs: (n,) the model's own probability of each guess.
        entropies: (n,) of its distributions, in nats.
        committed: (n,) bools: which guesses are written.
    """

    block: int
    places: torch.Tensor
    tokens: torch.Tensor
    probs: torch.Tensor
    entropies: torch.Tensor
    committed: torch.Tensor


def fill_places(
    logits_of: Callable[[torch.Tensor], torch.Tensor],
    ids: torch.Tensor,
    mask_id: int,
    rule: DiffusionRule,
    generator: torch.Generator,
) -> Iterator[Pass]:
    """Fill the hidden places of a text, block by block from left to right.

    Args:
        logits_of: (length,) ids -> (length, vocab) logits.
        ids: (length,) ids, ``mask_id`` at hidden places; filled in place.
        mask_id: the id that hides a token.
        rule: how to fill them.
        generator: the run's own random numbers.

    Yields:
        Every forward pass; its guesses have been written into ``ids``.
    """
    hidden = (ids == mask_id).nonzero()[:, 0]
    blocks = torch.split(hidden, rule.block_length or max(1, len(hidden)))
    budget = _share_steps(rule.steps, [len(block) for block in blocks])
    for number, (block, passes) in enumerate(zip(blocks, budget, strict=True)):
        for left in range(passes, 0, -1):
            places = block[ids[block] == mask_id]
            if not len(places):
                break
            made = _guess_places(logits_of(ids)[places], places, number, rule, left, generator)
            ids[places[made.committed]] = made.tokens[made.committed]
            yield made


def _share_steps(steps: int, lengths: list[int]) -> list[int]:
    """Return the passes of every block: one, and a share of the others by its places; at most its places."""
    shares: list[int] = []
    total, seen, others = sum(lengths), 0, steps - len(lengths)
    for length in lengths:
        before, seen = seen, seen + length
        # Rounded as running totals, so that the shares add up to the steps.
        share = round(others * seen / total) - round(others * before / total)
        shares.append(min(length, 1 + share))
    return shares


def _guess_places(
    logits: torch.Tensor,
    places: torch.Tensor,
    block: int,
    rule: DiffusionRule,
    left: int,
    generator: torch.Generator,
) -> Pass:
    logprobs = logits.log_softmax(-1)
    probs = logprobs.exp()
    warm = rule.temperature > 0
    tokens = draw_tokens(logits / rule.temperature, generator)[0] if warm else logits.argmax(-1)
    own = probs.gather(-1, tokens[:, None])[:, 0]
    # 0 * log 0 is 0 by definition, but NaN in floating point.
    entropies = (-probs * logprobs.nan_to_num(neginf=0.0)).sum(-1)
    committed = _choose_places(own, entropies, rule, left, generator)
    return Pass(block, places, tokens, own, entropies, committed)


def _choose_places(
    probs: torch.Tensor,
    entropies: torch.Tensor,
    rule: DiffusionRule,
    left: int,
    generator: torch.Generator,
) -> torch.Tensor:
    """Return (n,) bools: which guesses to write with ``left`` passes to go, this one included."""
    # With fewer per pass, some places would still be hidden after the last one.
    least = math.ceil(len(probs) / left)
    if rule.remasking == ENTROPY_BOUND:
        order = entropies.argsort(stable=True)
        # The most certain place is always written; the others share what the bound leaves open
        # (EB-Sampler, 2505.24857). The last pass writes all that are left.
        open_nats = entropies[order].cumsum(0) - entropies[order].cummax(0).values
        count = int((open_nats <= rule.entropy_bound).sum()) if left > 1 else len(probs)
    elif rule.remasking == RANDOM:
        order, count = torch.randperm(len(probs), generator=generator), least
    else:
        order, count = probs.argsort(descending=True, stable=True), least
    committed = torch.zeros(len(probs), dtype=torch.bool)
    committed[order[: max(1, count)]] = True
    return committed
