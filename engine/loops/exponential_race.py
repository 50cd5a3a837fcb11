"""Sampling as a race: token i arrives at e_i / p_i with e_i ~ Exponential(1), and the first wins.

``torch.multinomial`` samples in this way. Drawing the noise here gives its tokens from the run's own
generator, and the race can be recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from engine.loops.host_transfer import Columns, RowValues
from engine.loops.recorder import round_significant
from engine.models.model_types import Processors
from engine.trace.draws import DrawDetail, Racer

MAX_RACERS = 6


def draw_tokens(scores: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, Columns]:
    """Sample one token per row by the exponential race of ``torch.multinomial``.

    Args:
        scores: (batch, vocab) processed logits.
        generator: source of the noise e ~ Exponential(1).

    Returns:
        The result of ``run_race``.
    """
    probs = torch.softmax(scores, dim=-1)
    return run_race(probs, draw_noise(probs, generator))


def choose_tokens(scores: torch.Tensor, noise: torch.Tensor | None) -> tuple[torch.Tensor, Columns]:
    """Return (batch,) most probable tokens, or those that win the race; see ``run_race``.

    Args:
        scores: (batch, vocab) processed logits.
        noise: (batch, vocab) noise of the race; None for the most probable tokens.
    """
    if noise is None:
        return scores.argmax(-1), {}
    return run_race(torch.softmax(scores, dim=-1), noise)


def draw_coins(
    processors: Processors, like: torch.Tensor, generators: Sequence[torch.Generator]
) -> None:
    """Draw the (batch,) coins in [0, 1) of each filter that has some, such as XTC, for the next pass.

    Args:
        processors: logits processors; those without ``coins`` draw nothing.
        like: (batch, vocab) logits.
        generators: one for all rows, or one for each.
    """
    # By attribute, as exported loops know no class of a filter.
    for one in processors:
        processor: Any = one
        if hasattr(processor, "coins"):
            rows = len(like) // len(generators)
            drawn = [like.new_empty(rows).uniform_(generator=generator) for generator in generators]
            processor.coins = torch.cat(drawn)


def draw_noise(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return noise e ~ Exponential(1) of the shape and type of ``like``, such as (batch, vocab)."""
    # Nothing but this and ``draw_coins`` may draw from the run's generator: a seed must give the tokens
    # of generate().
    return torch.empty_like(like).exponential_(1, generator=generator)


def run_race(probs: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, Columns]:
    """Run the exponential race: every token arrives at e / p, and the first wins.

    Args:
        probs: (batch, vocab) probabilities p.
        noise: (batch, vocab) noise e.

    Returns:
        (batch,) sampled ids, the argmax of p / e; and (batch, MAX_RACERS) ids, probabilities and noise
        of the earliest arrivals e / p, for the record.
    """
    # p / e and not e / p, as torch.multinomial divides: the rounding of a near tie is then the same.
    pace = probs / noise
    first = pace.topk(min(MAX_RACERS, pace.shape[-1]), dim=-1).indices
    tokens = pace.argmax(-1)
    # topk and argmax may order equal values differently; argmax decides.
    first = torch.where(first == tokens[:, None], first[:, :1], first)
    first[:, 0] = tokens
    return tokens, {
        "racers": first,
        "probability": probs.gather(-1, first),
        "noise": noise.gather(-1, first),
    }


def draw_detail(numbers: RowValues) -> DrawDetail | None:
    """Return the record of one row's race, without tokens of probability zero; None without one."""
    if "racers" not in numbers:
        return None
    columns = (numbers[name] for name in ("racers", "probability", "noise"))
    racers = [
        Racer(
            int(token_id),
            round_significant(p),
            round_significant(noise),
            round_significant(noise / p),
        )
        for token_id, p, noise in zip(*columns, strict=True)
        if p > 0
    ]
    return DrawDetail(tuple(racers)) if racers else None
