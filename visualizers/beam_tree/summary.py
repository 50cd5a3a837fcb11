"""The beam tree: how probable every candidate was, which text leads, and greedy search beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.trace.details import BeamDetail, BeamNode, GreedyPath
from engine.trace.records import Step, Trace
from visualizers.base import Shown, models_own, probability

_GOES_ON = ("kept", "finished")
_MOST_NATS = 700.0
"""More than this has no number: exp() of it is none."""


@dataclass
class _Place:
    """A node and what grew from it."""

    node: BeamNode
    above: _Place | None
    children: list[_Place] = field(default_factory=list)
    living: int = 0
    """Children that go on, or that ended well."""
    died: bool = False


class Search:
    """Follows the tree that a search walks.

    Shows of a step: per member of its pool ``p``, its probability as the search used it, ``model``,
    the model's own, None where processors changed it, and ``rest``, what those of the pool that
    continue the same text leave of the probability as used; ``row``, the parent of those that the
    step's candidates are about; ``best``, the node whose text leads: the winner, before the end the
    best open text or a finished one that beats it; ``died``, the nodes none of whose continuations
    are left since this step. When the search has ended ``parting``, the index of the step at which
    the winner left the greedy path, where it never did the first at which a text that went on split
    in two or groups took different ways, None when none ever did; and ``greedy``: ``path``, the nodes of
    greedy search's text as far as the pools hold it; ``gain``, the winner's sum of log-probabilities
    minus greedy's, and ``times``, how many times as probable the better of the two is, both None for
    texts of different lengths; and ``paid``, what diversity cost the winner.
    """

    def __init__(self, run: Trace) -> None:
        del run
        self.places: dict[int, _Place] = {}
        self.roots: dict[int, list[_Place]] = {}
        self.last: list[_Place] = []
        self.parting: int | None = None

    def add(self, step: Step) -> Shown | None:
        """Take a step."""
        detail = step.detail
        if not isinstance(detail, BeamDetail):
            return None
        fresh = [self._join(node) for node in detail.pool]
        died, self.last = self._faded(fresh), fresh
        winner = self.places.get(-1 if detail.winner_node_id is None else detail.winner_node_id)
        if self.parting is None and self._branches(detail.pool):
            self.parting = step.index
        used = [probability(node.logprob) for node in detail.pool]
        return {
            "p": used,
            "model": [models_own(node, step) for node in detail.pool],
            "rest": _left(detail.pool, used),
            "row": _leader(detail).parent_id,
            "parting": self._parted(detail) if detail.stopping else None,
            "best": _ahead(detail) if winner is None else winner.node.node_id,
            "died": died,
            "greedy": self._beside(winner, detail.greedy),
        }

    def _parted(self, detail: BeamDetail) -> int | None:
        left_at = None if detail.greedy is None else detail.greedy.left_at
        return self.parting if left_at is None else left_at

    def _branches(self, pool: Sequence[BeamNode]) -> bool:
        """Return whether a text that went on has split in two, or groups have begun differently."""
        on = [node for node in pool if node.fate in _GOES_ON]
        if any(node.parent_id not in self.places for node in on):
            # Every search begins with as many texts as a group has beams: only groups can differ.
            return len({n.group for n in on}) > 1 and len({n.token_id for n in on}) > 1
        return len({node.parent_id for node in on}) < len(on)

    def _join(self, node: BeamNode) -> _Place:
        above = self.places.get(node.parent_id)
        place = self.places[node.node_id] = _Place(node, above)
        if above is None:
            self.roots.setdefault(node.group, []).append(place)
        else:
            above.children.append(place)
            above.living += node.fate in _GOES_ON
        return place

    def _faded(self, fresh: Sequence[_Place]) -> list[int]:
        """Return the texts that have died out with this pool, each before those above it."""
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

    def _beside(self, winner: _Place | None, greedy: GreedyPath | None) -> Shown | None:
        if winner is None or greedy is None:
            return None
        path = _path_to(winner)
        gain = None
        if len(path) == len(greedy.token_ids):
            gain = winner.node.sum_logprobs - greedy.sum_logprobs
        found = [_followed(roots, greedy.token_ids) for roots in self.roots.values()]
        return {
            "path": max(found, key=len),
            "gain": gain,
            "times": None if gain is None else math.exp(min(abs(gain), _MOST_NATS)),
            "paid": math.fsum(place.node.diversity_penalty for place in path),
        }


def _path_to(place: _Place) -> list[_Place]:
    path = [place]
    while path[-1].above is not None:
        path.append(path[-1].above)
    return path[::-1]


def _followed(places: Sequence[_Place], token_ids: Sequence[int]) -> list[int]:
    """Return the nodes of a text as far as they were considered."""
    found = []
    for token in token_ids:
        here = next((place for place in places if place.node.token_id == token), None)
        if here is None:
            break
        found.append(here.node.node_id)
        places = here.children
    return found


def _left(pool: Sequence[BeamNode], used: Sequence[float]) -> list[float]:
    """Return for every node what it and those with its parent leave of the probability."""
    taken: dict[tuple[int, int], list[float]] = {}
    for node, p in zip(pool, used, strict=True):
        taken.setdefault((node.group, node.parent_id), []).append(p)
    sums = {place: math.fsum(found) for place, found in taken.items()}
    return [max(0.0, 1 - sums[node.group, node.parent_id]) for node in pool]


def _leader(detail: BeamDetail) -> BeamNode:
    """Return the best node of a pool that goes on: the step's candidates are those beside it."""
    kept = [node for node in detail.pool if node.fate == "kept"] or detail.pool
    return max(kept, key=lambda node: node.sum_logprobs)


def _ahead(detail: BeamDetail) -> int:
    """Return the leader of a pool, or a finished text that beats it."""
    leader = _leader(detail)
    top = detail.heap[0] if detail.heap else None
    return top.node_id if top and top.score >= leader.score else leader.node_id
