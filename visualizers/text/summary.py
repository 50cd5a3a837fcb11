"""The text token by token: how probable each was where it stands, and what the run cost so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from engine.trace.details import BeamDetail, BeamNode, DraftDetail, Hypothesis
from engine.trace.records import Step, Trace, own_place, own_token
from visualizers.base import Shown, bits, models_own, probability
from visualizers.text.running import LEAST, Running, Seen, Starts

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
        self.texts: dict[int, Running] = {}
        self.starts = Starts()
        self.nodes: dict[int, tuple[BeamNode, Seen, int]] = {}
        self.pools: list[tuple[BeamNode, ...]] = []
        self.leading: list[int] = []
        self.tokens = 0
        self.forward_passes = 0
        self.first_token_s: float | None = None
        self.returned = _count(run.config.get("num_return_sequences"))
        self.groups = _count(run.config.get("num_beam_groups"))

    def add(self, step: Step) -> Shown:
        """Take a step."""
        text = self.texts.setdefault(step.sequence, Running())
        seen = self._seen(step)
        self.tokens -= len(text.ids)
        text.put(step.keep, step.emit, seen)
        self.tokens += len(text.ids)
        self.forward_passes += step.forward_passes
        if self.first_token_s is None:
            self.first_token_s = step.elapsed_s
        shown: Shown = {
            **_columns(seen),
            "own": text.figures(),
            "tokens": self.tokens,
            "forward_passes": self.forward_passes,
            "tokens_per_s": self.tokens / step.elapsed_s if step.elapsed_s else None,
            "first_token_s": self.first_token_s,
        }
        if isinstance(step.detail, BeamDetail) and step.detail.stopping:
            shown["others"] = self._others(step.detail.heap)
        return shown

    def _seen(self, step: Step) -> list[Seen]:
        if isinstance(step.detail, BeamDetail):
            return self._on_beam(step, step.detail)
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

    def _on_beam(self, step: Step, detail: BeamDetail) -> list[Seen]:
        """Return what the beam saw that wrote the text, of the tokens that the step wrote."""
        self.pools.append(detail.pool)
        for node in detail.pool:
            above = self.nodes.get(node.parent_id)
            start = self.starts.of(above[2] if above else 0, node.token_id)
            seen = models_own(node, step), probability(node.logprob)
            self.nodes[node.node_id] = node, seen, start
        del self.leading[step.keep :]
        for token_id in step.emit:
            self.leading.append(self.starts.of(self.leading[-1] if self.leading else 0, token_id))
        # A text that has ended may be shorter than the search is deep.
        for end in self.pools[len(self.leading) - 1] if self.leading else ():
            if self.nodes[end.node_id][2] == self.leading[-1]:
                return [seen for _, seen in self._path(end.node_id, len(step.emit))]
        return [_UNKNOWN] * len(step.emit)

    def _path(self, node_id: int, most: int | None = None) -> list[tuple[BeamNode, Seen]]:
        """Return the nodes down to one of them: from the first step of a search, or so many of the last."""
        path: list[tuple[BeamNode, Seen]] = []
        while node_id in self.nodes and len(path) != most:
            node, seen, _ = self.nodes[node_id]
            path.append((node, seen))
            node_id = node.parent_id
        return path[::-1]

    def _others(self, heap: Sequence[Hypothesis]) -> list[Shown]:
        wanted = heap if self.groups > 1 else heap[: self.returned]
        return [self._other(place, found) for place, found in enumerate(wanted) if place]

    def _other(self, place: int, found: Hypothesis) -> Shown:
        path = self._path(found.node_id)
        ids, seen = [node.token_id for node, _ in path], [known for _, known in path]
        whole = Running()
        whole.put(0, ids, seen)
        return {
            "token_ids": ids,
            **_columns(seen),
            "own": whole.figures(),
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


def _own(step: Step) -> Seen:
    """Return what the token that a step's candidates are of had before the processors and after them."""
    token = own_token(step)
    own = next((c for c in step.candidates if c.token_id == token), None)
    if own is None:
        return _UNKNOWN
    raw, used = own.raw_logprob, own.processed_logprob
    return None if raw == -math.inf else probability(raw), probability(used)
