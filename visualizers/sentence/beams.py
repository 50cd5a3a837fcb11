"""Sentences of a beam search: what became of the text with a word."""

from __future__ import annotations

from engine.trace.details import BeamDetail, BeamNode
from engine.trace.records import Step
from visualizers.base import StepSummary


class BeamSentences:
    """Finds the sentence of the leading text at each step, and of the text that won at the end."""

    def __init__(self) -> None:
        self.steps: list[tuple[Step, BeamDetail]] = []
        self.nodes: dict[int, tuple[int, BeamNode]] = {}

    def add(self, step: Step, detail: BeamDetail) -> StepSummary:
        """Return the sentence of the best kept text; on the last step also those of the winner."""
        for node in detail.pool:
            self.nodes[node.node_id] = (len(self.steps), node)
        self.steps.append((step, detail))
        leader = _find_leader(detail)
        found = {"kind": "beam_leads", "node": leader.node_id, "word": leader.token_id}
        if detail.winner_node_id is not None:
            found["path"] = self._winner_path(detail.winner_node_id)
        return found

    def _winner_path(self, node_id: int) -> list[StepSummary | None]:
        """Return the sentence of every step of a text, None after its end."""
        path: list[StepSummary | None] = [None] * len(self.steps)
        while node_id in self.nodes:
            place, node = self.nodes[node_id]
            path[place] = _describe_node(*self.steps[place], node, is_first=place == 0)
            node_id = node.parent_id
        return path


def _find_leader(detail: BeamDetail) -> BeamNode:
    """Return the kept node with the largest sum."""
    kept = [node for node in detail.pool if node.fate == "kept"] or detail.pool
    return max(kept, key=lambda node: node.sum_logprobs)


def _describe_node(
    step: Step, detail: BeamDetail, node: BeamNode, *, is_first: bool
) -> StepSummary:
    """Return the sentence of a node of the text that won."""
    found = {"node": node.node_id, "word": node.token_id}
    group = [other for other in detail.pool if other.group == node.group]
    avoided = _find_avoided(group, node)
    if avoided is not None:
        return {
            **found,
            "kind": "beam_avoided",
            "other": avoided.token_id,
            "group": node.group + 1,
            "before": avoided.penalised_by[0] + 1,
        }
    left_out = _find_undrawn(step, detail, node)
    if left_out is not None:
        return {**found, "kind": "beam_undrawn", "other": left_out}
    best = max(group, key=lambda other: other.sum_logprobs)
    if best.sum_logprobs <= node.sum_logprobs:
        return {**found, "kind": "beam_best"}
    if best.token_id == node.token_id:
        return {**found, "kind": "beam_overtook"}
    return {**found, "kind": "beam_start" if is_first else "beam_later", "other": best.token_id}


def _find_avoided(group: list[BeamNode], node: BeamNode) -> BeamNode | None:
    """Return the token that would have led a group without its diversity penalty."""
    first = max(group, key=lambda other: other.sum_logprobs)
    without = max(group, key=lambda other: other.sum_logprobs + other.diversity_penalty)
    is_moved = without.penalised_by and without.token_id != node.token_id
    return without if first is node and is_moved else None


def _find_undrawn(step: Step, detail: BeamDetail, node: BeamNode) -> int | None:
    """Return a likelier continuation of the same text that was not drawn into the pool."""
    siblings = {n.token_id: n for n in detail.pool if n.parent_id == node.parent_id}
    # The step's candidates continue the text of the leader.
    continued = _find_leader(detail).parent_id
    if node.arrival is None or not step.candidates or node.parent_id != continued:
        return None
    likeliest = max(step.candidates, key=lambda c: c.processed_logprob)
    return None if likeliest.token_id in siblings else likeliest.token_id
