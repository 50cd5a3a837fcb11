"""A draft tree: several guesses for each of the next tokens, in the order in which a model reads them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# torch does not say what Tensor.tolist() returns.
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import mul

import torch

ROOT = -1
"""The parent of a first guess: the last token of the text."""


@dataclass(frozen=True)
class TreeShape:
    """Size of the trees of a run.

    Attributes:
        depth: most guesses in a row.
        top_k: guesses after a node, and nodes of a level that are continued.
        nodes: most guesses in a tree.
        widths: of a fixed shape, the guesses after each node, level by level; empty lets the draft model's
            probabilities decide (``grow_dynamic_tree``).
    """

    depth: int
    top_k: int
    nodes: int
    widths: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """Most guesses in a tree."""
        return sum(accumulate(self.widths, mul)) if self.widths else self.nodes


def read_shape(depth: int, top_k: int, nodes: int, widths: str | None) -> TreeShape:
    """Return the shape that the parameters of a run describe.

    Args:
        depth: most guesses in a row.
        top_k: guesses after a node, and nodes of a level that are continued.
        nodes: most guesses in a tree.
        widths: whole numbers from 1, separated by commas; None for a tree without a fixed shape.

    Raises:
        ValueError: ``widths`` is something else.
    """
    if widths is None:
        return TreeShape(depth, top_k, nodes)
    counts = tuple(int(part) for part in widths.split(","))
    if min(counts) < 1:
        raise ValueError(widths)
    return TreeShape(len(counts), max(counts), 0, counts)


@dataclass
class DraftTree:
    """Drafted tokens, every one after its parent.

    Attributes:
        tokens: token of each node.
        parents: index of the node before each, or ROOT.
        logprobs: the draft model's log-probability of each token after its parent.
        totals: sum of the log-probabilities from the root to each node.
    """

    tokens: list[int] = field(default_factory=list[int])
    parents: list[int] = field(default_factory=list[int])
    logprobs: list[float] = field(default_factory=list[float])
    totals: list[float] = field(default_factory=list[float])

    def __len__(self) -> int:
        return len(self.tokens)

    def add(self, token: int, parent: int, logprob: float) -> int:
        """Add a node and return its index."""
        self.tokens.append(token)
        self.parents.append(parent)
        self.logprobs.append(logprob)
        self.totals.append(logprob + (0.0 if parent == ROOT else self.totals[parent]))
        return len(self) - 1

    def add_children(self, parent: int, logprobs: torch.Tensor, count: int) -> list[int]:
        """Add the most probable tokens of (vocab,) log-probabilities after a node; return their indices."""
        best = logprobs.topk(min(count, len(logprobs)))
        tokens: list[int] = best.indices.tolist()
        values: list[float] = best.values.tolist()
        return [
            self.add(token, parent, value)
            for token, value in zip(tokens, values, strict=True)
            if value > -math.inf
        ]

    def path(self, node: int) -> list[int]:
        """Return the indices from a first guess to a node."""
        path: list[int] = []
        while node != ROOT:
            path.append(node)
            node = self.parents[node]
        return path[::-1]

    def children(self, parent: int) -> list[int]:
        """Return the nodes after a node, or after the text, the most probable first."""
        return [node for node, above in enumerate(self.parents) if above == parent]

    def keep_best(self, count: int) -> DraftTree:
        """Return the tree of the most probable nodes; each path's probability is what counts."""
        # A node is never more probable than its parent, and added after it: no node loses its parent.
        order = sorted(range(len(self)), key=lambda node: -self.totals[node])[:count]
        kept, places = DraftTree(), {ROOT: ROOT}
        for node in sorted(order):
            places[node] = kept.add(
                self.tokens[node], places[self.parents[node]], self.logprobs[node]
            )
        return kept


ReadLevel = Callable[[DraftTree, Sequence[int]], "list[torch.Tensor]"]
"""A tree and the nodes of its last level, or ROOT alone -> (vocab,) log-probabilities after each of them."""


def grow_dynamic_tree(
    read: ReadLevel, ends: frozenset[int], depth: int, top_k: int, nodes: int
) -> DraftTree:
    """Grow a tree where the draft model is confident (EAGLE-2, 2406.16858).

    Each level continues the ``top_k`` most probable nodes of the level before with ``top_k`` tokens
    each. Of all of them, the ``nodes`` most probable stay.

    Args:
        read: gives the log-probabilities after nodes of one level.
        ends: tokens that end a text; nothing follows them.
        depth: levels.
        top_k: guesses after a node, and nodes of a level that are continued.
        nodes: size of the tree.
    """
    tree, level = DraftTree(), [ROOT]
    for _ in range(depth):
        fresh = _add_level(tree, read, level, top_k)
        open_nodes = [node for node in fresh if tree.tokens[node] not in ends]
        level = sorted(sorted(open_nodes, key=lambda node: -tree.totals[node])[:top_k])
        if not level:
            break
    return tree.keep_best(nodes)


def grow_static_tree(read: ReadLevel, ends: frozenset[int], widths: Sequence[int]) -> DraftTree:
    """Grow a tree of a fixed shape: on level i, every node has ``widths[i]`` guesses after it.

    Args:
        read: gives the log-probabilities after nodes of one level.
        ends: tokens that end a text; nothing follows them.
        widths: guesses after each node, level by level.
    """
    tree, level = DraftTree(), [ROOT]
    for width in widths:
        fresh = _add_level(tree, read, level, width)
        level = [node for node in fresh if tree.tokens[node] not in ends]
        if not level:
            break
    return tree


def _add_level(tree: DraftTree, read: ReadLevel, level: Sequence[int], count: int) -> list[int]:
    rows = read(tree, level)
    return [
        child
        for node, logprobs in zip(level, rows, strict=True)
        for child in tree.add_children(node, logprobs, count)
    ]
