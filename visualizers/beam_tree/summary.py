"""Summary of the beam tree: probabilities, leading text, and a comparison with greedy search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.trace.details import BeamDetail, BeamNode, GreedyPath
from engine.trace.records import Step, Trace
from visualizers.base import StepSummary, Visual, has_detail, model_probability, to_probability

_SURVIVING_FATES = ("kept", "finished")
_MAX_EXPONENT = 700.0
"""Limit of exponents: exp() overflows a float above about 709."""


@dataclass
class _TreeNode:
    """A node of the search tree with its children."""

    node: BeamNode
    above: _TreeNode | None
    children: list[_TreeNode] = field(default_factory=list)
    living: int = 0
    """Number of children that were kept or finished and have not died out."""
    died: bool = False


class BeamTreeSummary:
    """Builds the search tree and summarizes it.

    Values per step:

    - Per pool node: ``p``, the probability that the search used; ``model``, the model's
      probability, None if processors changed it; ``rest``, 1 minus the ``p`` of all nodes with the
      same parent.
    - ``row``: parent node of the step's recorded candidates.
    - ``best``: node of the leading text: the winner; before the end, the best open text or a
      finished one with a score at least as high.
    - ``died``: nodes whose last continuation was lost in this step.

    Values at the end of the search:

    - ``parting``: step at which the winner diverges from the greedy path. Without one, the first
      step at which a surviving text splits or groups differ; None if there is none.
    - ``greedy``: ``path``, the nodes of the greedy text, as far as the pools hold it; ``gain``, the
      winner's sum of log-probabilities minus that of greedy search; ``times``, the probability
      ratio of the better to the worse (both None for texts of different lengths); ``paid``, the
      winner's diversity penalty in all.
    """

    def __init__(self, run: Trace) -> None:
        del run
        self.places: dict[int, _TreeNode] = {}
        self.roots: dict[int, list[_TreeNode]] = {}
        self.last: list[_TreeNode] = []
        self.parting: int | None = None

    def add(self, step: Step) -> StepSummary | None:
        """Add a step and return its values; None without a beam detail."""
        detail = step.detail
        if not isinstance(detail, BeamDetail):
            return None
        fresh = [self._add_node(node) for node in detail.pool]
        died, self.last = self._mark_dead_ends(fresh), fresh
        winner = self.places.get(-1 if detail.winner_node_id is None else detail.winner_node_id)
        if self.parting is None and self._has_branched(detail.pool):
            self.parting = step.index
        used = [to_probability(node.logprob) for node in detail.pool]
        return {
            "p": used,
            "model": [model_probability(node, step) for node in detail.pool],
            "rest": _remaining_probabilities(detail.pool, used),
            "row": _best_open_node(detail).parent_id,
            "parting": self._divergence_step(detail) if detail.stopping else None,
            "best": _leading_node_id(detail) if winner is None else winner.node.node_id,
            "died": died,
            "greedy": self._compare_with_greedy(winner, detail.greedy),
        }

    def _divergence_step(self, detail: BeamDetail) -> int | None:
        left_at = None if detail.greedy is None else detail.greedy.left_at
        return self.parting if left_at is None else left_at

    def _has_branched(self, pool: Sequence[BeamNode]) -> bool:
        """Return True if a surviving text has split, or groups have begun differently."""
        on = [node for node in pool if node.fate in _SURVIVING_FATES]
        if any(node.parent_id not in self.places for node in on):
            # Every group begins with one text per beam, so only a difference between groups counts.
            return len({n.group for n in on}) > 1 and len({n.token_id for n in on}) > 1
        return len({node.parent_id for node in on}) < len(on)

    def _add_node(self, node: BeamNode) -> _TreeNode:
        above = self.places.get(node.parent_id)
        place = self.places[node.node_id] = _TreeNode(node, above)
        if above is None:
            self.roots.setdefault(node.group, []).append(place)
        else:
            above.children.append(place)
            above.living += node.fate in _SURVIVING_FATES
        return place

    def _mark_dead_ends(self, fresh: Sequence[_TreeNode]) -> list[int]:
        """Mark the nodes that died out with this pool; return their ids, children first."""
        searching = {place.node.group for place in fresh}
        died = []
        for place in self.last:
            at = place if place.node.fate == "kept" and place.node.group in searching else None
            while at is not None and not at.living and not at.died:
                at.died = True
                died.append(at.node.node_id)
                at = at.above
                if at is not None:
                    at.living -= 1
        return died

    def _compare_with_greedy(
        self, winner: _TreeNode | None, greedy: GreedyPath | None
    ) -> StepSummary | None:
        if winner is None or greedy is None:
            return None
        path = _path_to(winner)
        gain = None
        if len(path) == len(greedy.token_ids):
            gain = winner.node.sum_logprobs - greedy.sum_logprobs
        found = [_follow_tokens(roots, greedy.token_ids) for roots in self.roots.values()]
        return {
            "path": max(found, key=len),
            "gain": gain,
            "times": None if gain is None else math.exp(min(abs(gain), _MAX_EXPONENT)),
            "paid": math.fsum(place.node.diversity_penalty for place in path),
        }


def _path_to(place: _TreeNode) -> list[_TreeNode]:
    path = [place]
    while path[-1].above is not None:
        path.append(path[-1].above)
    return path[::-1]


def _follow_tokens(places: Sequence[_TreeNode], token_ids: Sequence[int]) -> list[int]:
    """Return the node ids along a text, as far as the tree holds it."""
    found = []
    for token in token_ids:
        here = next((place for place in places if place.node.token_id == token), None)
        if here is None:
            break
        found.append(here.node.node_id)
        places = here.children
    return found


def _remaining_probabilities(pool: Sequence[BeamNode], used: Sequence[float]) -> list[float]:
    """Return for every node 1 minus the probabilities of all nodes with the same parent."""
    taken: dict[tuple[int, int], list[float]] = {}
    for node, p in zip(pool, used, strict=True):
        taken.setdefault((node.group, node.parent_id), []).append(p)
    sums = {place: math.fsum(found) for place, found in taken.items()}
    return [max(0.0, 1 - sums[node.group, node.parent_id]) for node in pool]


def _best_open_node(detail: BeamDetail) -> BeamNode:
    """Return the kept node with the largest sum; the step's candidates are its siblings."""
    kept = [node for node in detail.pool if node.fate == "kept"] or detail.pool
    return max(kept, key=lambda node: node.sum_logprobs)


def _leading_node_id(detail: BeamDetail) -> int:
    """Return the id of the best open node, or of a finished text with at least its score."""
    leader = _best_open_node(detail)
    top = detail.heap[0] if detail.heap else None
    return top.node_id if top and top.score >= leader.score else leader.node_id


VISUALS = (
    Visual("beam_tree", BeamTreeSummary, has_detail(BeamDetail), order=10),
    Visual("beam_rescore", None, has_detail(BeamDetail), order=11),
)
