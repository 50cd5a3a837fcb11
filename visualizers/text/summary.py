"""Summary of the text: probability of each token, and the cost of the run so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from engine.statistics.metrics import has_own_probability
from engine.trace.details import BeamDetail, BeamNode, DraftDetail, Hypothesis
from engine.trace.records import Step, Trace, chosen_emit_index, chosen_token_id
from engine.trace.served import ServedDetail
from visualizers.base import StepSummary, Visual, model_probability, nats_to_bits, to_probability
from visualizers.text.text_figures import (
    MIN_PROBABILITY,
    PrefixNumbers,
    TextFigures,
    TokenProbabilities,
)

_UNKNOWN_PROBABILITIES: TokenProbabilities = (None, None)


def _positive_count(value: Any) -> int:
    """Return a setting that is a positive count, or 1 for anything else in a file."""
    return value if isinstance(value, int) and value > 0 else 1


class TextSummary:
    """Tracks every text of a run.

    Values per step:

    - Per emitted token: ``p`` and ``used``, its probability before and after the processors, each
      None if unknown; ``nats_to_bits``, its surprise by ``p``, or by ``used`` if ``p`` is unknown.
    - ``own``: figures of the step's text so far: ``tokens``, ``perplexity`` under the model (None
      if a probability is unknown) and ``rep_3``.
    - Of the run so far: ``tokens`` in all texts, ``forward_passes``, ``tokens_per_s``, and
      ``first_token_s``, the seconds from the start of decoding to the first decision, None if a
      server decoded the run.
    - ``others``, at the end of a beam search: its other returned texts, best first; all texts of a
      search in groups. Each has ``token_ids`` with ``p``, ``used`` and ``nats_to_bits``, ``score``,
      ``group`` from 0, ``own`` figures, and ``output``, its index among the returned texts, else
      None.

    A step's candidates give the probability of one token, see ``chosen_emit_index``. The probabilities of
    other tokens come from the records of drafts and beams.
    """

    def __init__(self, run: Trace) -> None:
        self.texts: dict[int, TextFigures] = {}
        self.starts = PrefixNumbers()
        self.nodes: dict[int, tuple[BeamNode, TokenProbabilities, int]] = {}
        self.pools: list[tuple[BeamNode, ...]] = []
        self.leading: list[int] = []
        self.tokens = 0
        self.forward_passes = 0
        self.first_token_s: float | None = None
        self.returned = _positive_count(run.config.get("num_return_sequences"))
        self.groups = _positive_count(run.config.get("num_beam_groups"))

    def add(self, step: Step) -> StepSummary:
        """Add a step and return its values."""
        text = self.texts.setdefault(step.sequence, TextFigures())
        seen = self._token_probabilities(step)
        self.tokens -= len(text.ids)
        text.put(step.keep, step.emit, seen)
        self.tokens += len(text.ids)
        self.forward_passes += step.forward_passes
        if self.first_token_s is None and not isinstance(step.detail, ServedDetail):
            self.first_token_s = step.elapsed_s
        shown: StepSummary = {
            **_probability_columns(seen),
            "own": text.figures(),
            "tokens": self.tokens,
            "forward_passes": self.forward_passes,
            "tokens_per_s": self.tokens / step.elapsed_s if step.elapsed_s else None,
            "first_token_s": self.first_token_s,
        }
        if isinstance(step.detail, BeamDetail) and step.detail.stopping:
            shown["others"] = self._other_outputs(step.detail.heap)
        return shown

    def _token_probabilities(self, step: Step) -> list[TokenProbabilities]:
        if isinstance(step.detail, BeamDetail):
            return self._beam_probabilities(step, step.detail)
        own = chosen_emit_index(step)
        drafted = step.detail.tokens if isinstance(step.detail, DraftDetail) else ()
        return [
            # A draft records p after the processors; it is the model's own only without any.
            (None if step.stages else drafted[place].p, drafted[place].p)
            if place < len(drafted) and drafted[place].status == "accepted"
            else _chosen_probabilities(step)
            if place == own
            else _UNKNOWN_PROBABILITIES
            for place in range(len(step.emit))
        ]

    def _beam_probabilities(self, step: Step, detail: BeamDetail) -> list[TokenProbabilities]:
        """Return the probabilities of the emitted tokens on the beam that holds them."""
        self.pools.append(detail.pool)
        for node in detail.pool:
            above = self.nodes.get(node.parent_id)
            start = self.starts.number_of(above[2] if above else 0, node.token_id)
            seen = model_probability(node, step), to_probability(node.logprob)
            self.nodes[node.node_id] = node, seen, start
        del self.leading[step.keep :]
        for token_id in step.emit:
            self.leading.append(
                self.starts.number_of(self.leading[-1] if self.leading else 0, token_id)
            )
        # A finished text may be shorter than the depth of the search.
        for end in self.pools[len(self.leading) - 1] if self.leading else ():
            if self.nodes[end.node_id][2] == self.leading[-1]:
                return [seen for _, seen in self._node_path(end.node_id, len(step.emit))]
        return [_UNKNOWN_PROBABILITIES] * len(step.emit)

    def _node_path(
        self, node_id: int, most: int | None = None
    ) -> list[tuple[BeamNode, TokenProbabilities]]:
        """Return the path of nodes that ends in ``node_id``, or only its last ``most`` nodes."""
        path: list[tuple[BeamNode, TokenProbabilities]] = []
        while node_id in self.nodes and len(path) != most:
            node, seen, _ = self.nodes[node_id]
            path.append((node, seen))
            node_id = node.parent_id
        return path[::-1]

    def _other_outputs(self, heap: Sequence[Hypothesis]) -> list[StepSummary]:
        wanted = heap if self.groups > 1 else heap[: self.returned]
        return [self._summarize_output(place, found) for place, found in enumerate(wanted) if place]

    def _summarize_output(self, place: int, found: Hypothesis) -> StepSummary:
        path = self._node_path(found.node_id)
        ids, seen = [node.token_id for node, _ in path], [known for _, known in path]
        whole = TextFigures()
        whole.put(0, ids, seen)
        return {
            "token_ids": ids,
            **_probability_columns(seen),
            "own": whole.figures(),
            "score": found.score,
            "group": found.group,
            "output": place if place < self.returned else None,
        }


def _probability_columns(seen: Sequence[TokenProbabilities]) -> StepSummary:
    known = [used if p is None else p for p, used in seen]
    return {
        "p": [p for p, _ in seen],
        "used": [used for _, used in seen],
        "bits": [
            None if p is None else nats_to_bits(-math.log(max(p, MIN_PROBABILITY))) for p in known
        ],
    }


def _chosen_probabilities(step: Step) -> TokenProbabilities:
    """Return the chosen token's probability before and after the processors."""
    token = chosen_token_id(step)
    own = next((c for c in step.candidates if c.token_id == token), None)
    if own is None:
        return _UNKNOWN_PROBABILITIES
    raw, used = own.raw_logprob, own.processed_logprob
    if isinstance(step.detail, ServedDetail):
        p = to_probability(raw)
        return (p, None) if has_own_probability(step) else (None, p)
    return None if raw == -math.inf else to_probability(raw), to_probability(used)


VISUALS = (Visual("text", TextSummary, order=0),)
