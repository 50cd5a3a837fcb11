"""The text token by token: how probable each was where it stands, and what the run cost so far."""

from __future__ import annotations

import math

from engine.trace.details import BeamDetail, BeamNode, DraftDetail
from engine.trace.records import Step, Trace
from visualizers.base import Shown, bits, probability

LEAST = 1e-30
"""A probability below this surprises as much as this: nought has no bits."""
Seen = tuple[float | None, bool]
"""A token's probability, None where nothing tells, and whether it is that after the processors."""


class Written:
    """Follows every text of a run.

    Shows of a step: per token that it wrote ``p``, how probable the token was where it stands,
    None where nothing tells; ``processed``, whether that is the probability after the processors;
    and ``bits``, how surprising it so was. And what the run has come to: ``tokens`` in all its
    texts, ``forward_passes``, ``tokens_per_s``.

    The candidates of a step are those of the last token it wrote; the tokens before that one have
    their probability from the draft's or the beams' record.
    """

    def __init__(self, run: Trace) -> None:
        del run
        self.texts: dict[int, list[int]] = {}
        self.nodes: dict[int, BeamNode] = {}
        self.pools: list[tuple[BeamNode, ...]] = []
        self.forward_passes = 0

    def add(self, step: Step) -> Shown:
        """Take a step."""
        text = self.texts.setdefault(step.sequence, [])
        text[step.keep :] = step.emit
        seen = self._seen(step, text)
        self.forward_passes += step.forward_passes
        tokens = sum(map(len, self.texts.values()))
        return {
            "p": [p for p, _ in seen],
            "processed": [processed for _, processed in seen],
            "bits": [None if p is None else bits(-math.log(max(p, LEAST))) for p, _ in seen],
            "tokens": tokens,
            "forward_passes": self.forward_passes,
            "tokens_per_s": tokens / step.elapsed_s if step.elapsed_s else None,
        }

    def _seen(self, step: Step, text: list[int]) -> list[Seen]:
        if isinstance(step.detail, BeamDetail):
            return self._on_beam(step.detail, text)[step.keep :]
        last = len(step.emit) - 1
        drafted = step.detail.tokens if isinstance(step.detail, DraftDetail) else ()
        return [
            (drafted[place].p, True)
            if place < len(drafted) and drafted[place].status == "accepted"
            else (_own(step), False)
            if place == last
            else (None, False)
            for place in range(len(step.emit))
        ]

    def _on_beam(self, detail: BeamDetail, text: list[int]) -> list[Seen]:
        """Return what the beam saw that wrote the text, from its first token on."""
        self.pools.append(detail.pool)
        self.nodes |= {node.node_id: node for node in detail.pool}
        # A text that has ended may be shorter than the search is deep.
        for end in self.pools[len(text) - 1] if text else ():
            path = path_to(end, self.nodes) if end.token_id == text[-1] else []
            if [node.token_id for node in path] == text:
                return [(probability(node.logprob), True) for node in path]
        return [(None, False)] * len(text)


def path_to(end: BeamNode, nodes: dict[int, BeamNode]) -> list[BeamNode]:
    """Return the nodes from the first step of a search down to one of them."""
    path = [end]
    while path[-1].parent_id in nodes:
        path.append(nodes[path[-1].parent_id])
    return path[::-1]


def _own(step: Step) -> float | None:
    """Return what the model gave the last token that a step wrote, None if it was impossible."""
    own = next((c for c in step.candidates if c.token_id in step.emit[-1:]), None)
    return None if own is None or own.raw_logprob == -math.inf else probability(own.raw_logprob)
