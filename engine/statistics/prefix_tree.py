"""Many sampled texts as a prefix tree, with frequencies and exact probabilities."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SampledText:
    """One sampled text: its seed, its tokens and their probabilities."""

    seed: int
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """Natural log of each token's probability after every processor."""

    @property
    def probability(self) -> float:
        """Exact probability of the whole text."""
        return math.exp(sum(self.logprobs))


@dataclass(frozen=True, slots=True)
class DrawBatch:
    """Some of many draws from one prompt."""

    draws: tuple[SampledText, ...]
    prompt_ids: tuple[int, ...]
    pieces: dict[int, str]
    elapsed_s: float
    """Seconds of decoding so far, over all batches and without waiting times."""
    error: float = 0.0
    """Largest total variation distance of a step's draw so far from that over the whole vocabulary;
    above 0 only if a server listed a part of what the filters keep."""


@dataclass(slots=True)
class PrefixNode:
    """A run of tokens that sampled texts share after a common prefix."""

    token_ids: tuple[int, ...]
    count: int
    probability: float
    """Exact probability of the prefix up to the last token of this node."""
    head: float = 1.0
    """Exact probability of the prefix up to the first token of this node."""
    children: list[PrefixNode] = field(default_factory=list)


def build_prefix_tree(draws: Sequence[SampledText]) -> PrefixNode:
    """Return the prefix tree of sampled texts; the root has no tokens and probability 1.

    Tokens without a fork share one node. The most frequent child comes first.
    """
    root = PrefixNode((), len(draws), 1.0)
    _grow_tree(root, list(draws), 0)
    return root


def _grow_tree(root: PrefixNode, draws: list[SampledText], start: int) -> None:
    waiting = [(root, draws, start)]
    while waiting:
        branch, members, at = waiting.pop()
        groups: dict[int, list[SampledText]] = {}
        for draw in members:
            if len(draw.token_ids) > at:
                groups.setdefault(draw.token_ids[at], []).append(draw)
        for group in groups.values():
            end = _common_end(group, at)
            first = group[0]
            exact, head = (math.exp(sum(first.logprobs[:n])) for n in (end, at + 1))
            child = PrefixNode(first.token_ids[at:end], len(group), exact, head)
            branch.children.append(child)
            waiting.append((child, group, end))
        branch.children.sort(key=lambda child: (-child.count, child.token_ids))


def _common_end(group: list[SampledText], at: int) -> int:
    """Return the end of the shared run of tokens from ``at``, at least one token later."""
    shortest, first = min(len(d.token_ids) for d in group), group[0].token_ids
    end = at + 1
    while end < shortest and all(d.token_ids[end] == first[end] for d in group):
        end += 1
    return end


def count_outcomes(draws: Iterable[SampledText]) -> list[tuple[SampledText, int]]:
    """Return every distinct text with its count, the most frequent first."""
    found: dict[tuple[int, ...], list[SampledText]] = {}
    for draw in draws:
        found.setdefault(draw.token_ids, []).append(draw)
    pairs = [(same[0], len(same)) for same in found.values()]
    return sorted(pairs, key=lambda pair: (-pair[1], -pair[0].probability))
