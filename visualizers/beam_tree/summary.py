"""The beam tree: how probable every candidate was, which text leads, and greedy search beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.trace.details import BeamDetail, BeamNode, GreedyPath
from engine.trace.records import Step, Trace
from visualizers.base import Shown, probability

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

    Shows of a step: per member of its pool ``p``, its probability; ``best``, the node whose text
    leads: the winner, before the end the best open text or a finished one that beats it; ``died``,
    the nodes none of whose continuations are left since this step. When the search has ended
    ``greedy``: ``path``, the nodes of greedy search's text as far as the pools hold it; ``gain``,
    the winner's sum of log-probabilities minus greedy's, and ``times``, how many times as probable
    the better of the two is, both None for texts of different lengths; and ``paid``, what
    diversity cost the winner.
    """

    def __init__(self, run: Trace) -> None:
        del run
        self.places: dict[int, _Place] = {}
        self.roots: dict[int, list[_Place]] = {}
        self.last: list[_Place] = []

    def add(self, step: Step) -> Shown | None:
        """Take a step."""
        detail = step.detail
        if not isinstance(detail, BeamDetail):
            return None
        fresh = [self._join(node) for node in detail.pool]
        died, self.last = self._faded(fresh), fresh
        winner = self.places.get(-1 if detail.winner_node_id is None else detail.winner_node_id)
        return {
            "p": [probability(node.logprob) for node in detail.pool],
            "best": _ahead(detail) if winner is None else winner.node.node_id,
            "died": died,
            "greedy": self._beside(winner, detail.greedy),
        }

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


def _ahead(detail: BeamDetail) -> int:
    """Return the leader of a pool, or a finished text that beats it."""
    kept = [node for node in detail.pool if node.fate == "kept"] or detail.pool
    leader = max(kept, key=lambda node: node.sum_logprobs)
    top = detail.heap[0] if detail.heap else None
    return top.node_id if top and top.score >= leader.score else leader.node_id
