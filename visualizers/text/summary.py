"""The text token by token: how probable each was where it stands, and what the run cost so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from engine.reading.metrics import perplexity_of, repetition
from engine.trace.details import BeamDetail, BeamNode, DraftDetail, Hypothesis
from engine.trace.records import Step, Trace, own_place, own_token
from visualizers.base import Shown, bits, models_own, probability

LEAST = 1e-30
"""A probability below this surprises as much as this: nought has no bits."""
Seen = tuple[float | None, float | None]
"""A token's probability in the model and as it was used, each None where nothing tells."""
_UNKNOWN: Seen = (None, None)


def _count(value: Any) -> int:
    """Return a setting that counts something, 1 for what a file may hold instead."""
    return value if isinstance(value, int) and value > 0 else 1


class Written:
    """Follows every text of a run.

    Shows of a step: per token that it wrote ``p``, the model's own probability of the token where it
    stands, ``used``, that after the processors, each None where nothing tells, and ``bits``, how
    surprising it was: by ``p``, where that is unknown by ``used``. ``own``, the figures of the text
    that the step wrote, as far as it has come: ``tokens``, ``perplexity`` under the model (None
    where a token's own probability is unknown), ``rep_3``. And what the run has come to: ``tokens``
    in all its texts, ``forward_passes``, ``tokens_per_s``, and ``first_token_s``, the seconds from
    where decoding began to the first decision.

    The candidates of a step are those of the last token it wrote, of one seen from outside the first; other
    tokens have their probability from the draft's or the beams' record. A search that ends shows ``others``:
    its other texts, best first, those that it returns, of a search in groups all of them. Each has
    ``token_ids`` with ``p``, ``used`` and ``bits``, its ``score``, its ``group`` from 0, its own
    figures, and ``output``, its place among those that are returned from 0, None for one that is not.
    """

    def __init__(self, run: Trace) -> None:
        self.texts: dict[int, list[int]] = {}
        self.seen: dict[int, list[Seen]] = {}
        self.nodes: dict[int, tuple[BeamNode, Seen]] = {}
        self.pools: list[tuple[BeamNode, ...]] = []
        self.forward_passes = 0
        self.first_token_s: float | None = None
        self.returned = _count(run.config.get("num_return_sequences"))
        self.groups = _count(run.config.get("num_beam_groups"))

    def add(self, step: Step) -> Shown:
        """Take a step."""
        text = self.texts.setdefault(step.sequence, [])
        text[step.keep :] = step.emit
        seen = self._seen(step, text)
        whole = self.seen.setdefault(step.sequence, [])
        whole[step.keep :] = seen
        self.forward_passes += step.forward_passes
        if self.first_token_s is None:
            self.first_token_s = step.elapsed_s
        tokens = sum(map(len, self.texts.values()))
        shown: Shown = {
            **_columns(seen),
            "own": _figures(text, whole),
            "tokens": tokens,
            "forward_passes": self.forward_passes,
            "tokens_per_s": tokens / step.elapsed_s if step.elapsed_s else None,
            "first_token_s": self.first_token_s,
        }
        if isinstance(step.detail, BeamDetail) and step.detail.stopping:
            shown["others"] = self._others(step.detail.heap)
        return shown

    def _seen(self, step: Step, text: list[int]) -> list[Seen]:
        if isinstance(step.detail, BeamDetail):
            return self._on_beam(step, step.detail, text)[step.keep :]
        own = own_place(step)
        drafted = step.detail.tokens if isinstance(step.detail, DraftDetail) else ()
        return [
            (None if step.stages else drafted[place].p, drafted[place].p)
            if place < len(drafted) and drafted[place].status == "accepted"
            else _own(step)
            if place == own
            else _UNKNOWN
            for place in range(len(step.emit))
        ]

    def _on_beam(self, step: Step, detail: BeamDetail, text: list[int]) -> list[Seen]:
        """Return what the beam saw that wrote the text, from its first token on."""
        self.pools.append(detail.pool)
        for node in detail.pool:
            self.nodes[node.node_id] = node, (models_own(node, step), probability(node.logprob))
        # A text that has ended may be shorter than the search is deep.
        for end in self.pools[len(text) - 1] if text else ():
            path = self._path(end.node_id) if end.token_id == text[-1] else []
            if [node.token_id for node, _ in path] == text:
                return [seen for _, seen in path]
        return [_UNKNOWN] * len(text)

    def _path(self, node_id: int) -> list[tuple[BeamNode, Seen]]:
        """Return the nodes from the first step of a search down to one of them."""
        path = [self.nodes[node_id]]
        while path[-1][0].parent_id in self.nodes:
            path.append(self.nodes[path[-1][0].parent_id])
        return path[::-1]

    def _others(self, heap: Sequence[Hypothesis]) -> list[Shown]:
        wanted = heap if self.groups > 1 else heap[: self.returned]
        return [self._other(place, found) for place, found in enumerate(wanted) if place]

    def _other(self, place: int, found: Hypothesis) -> Shown:
        path = self._path(found.node_id)
        ids, seen = [node.token_id for node, _ in path], [known for _, known in path]
        return {
            "token_ids": ids,
            **_columns(seen),
            "own": _figures(ids, seen),
            "score": found.score,
            "group": found.group,
            "output": place if place < self.returned else None,
        }


def _columns(seen: Sequence[Seen]) -> Shown:
    known = [used if p is None else p for p, used in seen]
    return {
        "p": [p for p, _ in seen],
        "used": [used for _, used in seen],
        "bits": [None if p is None else bits(-math.log(max(p, LEAST))) for p in known],
    }


def _figures(ids: Sequence[int], seen: Sequence[Seen]) -> Shown:
    """Return the figures of one text as far as it has come."""
    own = [p for p, _ in seen if p is not None]
    whole = bool(own) and len(own) == len(seen)
    return {
        "tokens": len(ids),
        "perplexity": perplexity_of([math.log(max(p, LEAST)) for p in own]) if whole else None,
        "rep_3": repetition(ids, 3),
    }


def _own(step: Step) -> Seen:
    """Return what the token that a step's candidates are of had before the processors and after them."""
    token = own_token(step)
    own = next((c for c in step.candidates if c.token_id == token), None)
    if own is None:
        return _UNKNOWN
    raw, used = own.raw_logprob, own.processed_logprob
    return None if raw == -math.inf else probability(raw), probability(used)
