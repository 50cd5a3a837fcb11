"""Which tokens of a step become its recorded candidates, and their ranks."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# torch does not say what Tensor.tolist() returns.
from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch


def rank_tokens(logprobs: torch.Tensor, best: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
    """Return (batch, n) how many tokens are more probable than each given one.

    Args:
        logprobs: (batch, vocab).
        best: (batch, top) the largest log-probabilities in order.
        own: (batch, n) log-probabilities of the given tokens.
    """
    # A token among the best is only outranked by others of the best.
    ranks = (best[:, None] > own[..., None]).sum(-1)
    outside_best: Sequence[int] = range(own.shape[1])
    if own.device.type == "cpu":  # on a GPU this check would wait for the device
        outside_best = (own < best[:, -1:]).any(0).nonzero()[:, 0].tolist()
    for i in outside_best:
        ranks[:, i] = (logprobs > own[:, i : i + 1]).sum(-1)
    return ranks


def select_columns(
    ids: list[int], processed: Sequence[float], raw_count: int, top: int
) -> list[int]:
    """Choose the columns that become candidates: the emitted one, then both rankings in turn.

    ``ids`` holds the raw ranking, then the emitted token, then (if a processor ran) the processed
    ranking. A token found twice keeps its column of the raw ranking, whose rank is exact.
    """
    raw = range(raw_count)
    survivors = [i for i in range(raw_count + 1, len(ids)) if processed[i] > -math.inf]
    pairs = itertools.zip_longest(survivors, raw)
    turns = [raw_count, *(i for pair in pairs for i in pair if i is not None)]
    column = {ids[i]: i for i in reversed(range(len(ids)))}
    picked = dict.fromkeys(column[ids[i]] for i in turns)
    return list(picked)[:top]
