"""Summary of many draws: prefix tree with frequencies and exact probabilities, and outcomes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from engine.messages import Message
from engine.statistics.prefix_tree import PrefixNode, SampledText, build_prefix_tree, count_outcomes

COLUMNS = ["text", "times", "share", "exact probability", "expected times", "± (one sigma)", "seed"]
_MIN_MISSED_PROBABILITY = 0.01


def prefix_tree_view(
    draws: Sequence[SampledText], pieces: Mapping[int, str], *, leaves: int = 24, rows: int = 40
) -> dict[str, Any]:
    """Return the tree, the counts and the table of outcomes.

    Args:
        draws: outcomes of one prompt.
        pieces: token id -> piece of text.
        leaves: approximate number of leaves; rarer branches are pooled.
        rows: largest number of outcomes in the table, most frequent first.
    """
    root = build_prefix_tree(draws)
    found = count_outcomes(draws)
    total = len(draws)
    return {
        "columns": COLUMNS,
        "rows": [_outcome_row(draw, times, total, pieces) for draw, times in found[:rows]],
        "draws": total,
        "distinct": len(found),
        "covered": min(1.0, sum(draw.probability for draw, _ in found)),
        "tree": _tree_node(root, _pooling_threshold(root, leaves), pieces, total),
    }


def _join_pieces(ids: Sequence[int], pieces: Mapping[int, str]) -> str:
    return "".join(pieces.get(i, f"#{i}") for i in ids)


def _outcome_row(draw: SampledText, times: int, total: int, pieces: Mapping[int, str]) -> list[Any]:
    p = draw.probability
    spread = math.sqrt(total * p * (1 - min(p, 1.0)))
    share = round(times / total, 6)
    text = _join_pieces(draw.token_ids, pieces)
    return [text, times, share, p, round(total * p, 4), round(spread, 4), draw.seed]


def _pooling_threshold(root: PrefixNode, leaves: int) -> int:
    """Return the smallest branch count at which at most ``leaves`` leaves remain."""
    counts: list[int] = []
    waiting = list(root.children)
    while waiting:
        branch = waiting.pop()
        waiting += branch.children
        counts.append(branch.count)
    for threshold in sorted({1, *(count + 1 for count in counts)}):
        if _count_leaves(root, threshold) <= leaves:
            return threshold
    return max(counts, default=0) + 1


def _count_leaves(root: PrefixNode, threshold: int) -> int:
    """Return the number of leaves if branches below the threshold are pooled."""
    number, waiting = 0, [root]
    while waiting:
        branch = waiting.pop()
        shown = [child for child in branch.children if child.count >= threshold]
        waiting += shown
        number += (not shown) or len(shown) < len(branch.children)
    return number


def _tree_node(
    branch: PrefixNode, threshold: int, pieces: Mapping[int, str], total: int
) -> dict[str, Any]:
    shown = [child for child in branch.children if child.count >= threshold]
    pooled = branch.children[len(shown) :]
    children = [_tree_node(child, threshold, pieces, total) for child in shown]
    if pooled:
        children.append(
            _make_leaf(
                "pooled",
                Message("{n} rarer branches", n=len(pooled))
                if len(pooled) > 1
                else "1 rarer branch",
                sum(child.count for child in pooled),
                sum(child.head for child in pooled),
                total,
            )
        )
    # ``head`` is the probability of a branch's first token; ``probability`` covers all its tokens.
    missed = branch.probability - sum(child.head for child in branch.children)
    if branch.children and missed >= _MIN_MISSED_PROBABILITY:
        children.append(_make_leaf("missed", "never drawn", 0, missed, total))
    text = _join_pieces(branch.token_ids, pieces)
    node = _make_leaf("tokens", text, branch.count, branch.probability, total)
    return {**node, "children": children}


def _make_leaf(kind: str, text: str, count: int, probability: float, total: int) -> dict[str, Any]:
    return {
        "kind": kind,
        "text": text,
        "count": count,
        "share": count / total if total else 0.0,
        "probability": round(min(1.0, max(0.0, probability)), 9),
        "children": [],
    }
