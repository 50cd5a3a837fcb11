"""Validation of a recorded beam search: its steps form one tree whose leaves are the outputs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from engine.errors import TraceError
from engine.messages import Message
from engine.trace.details import BeamDetail, BeamNode
from engine.trace.records import Trace

PROMPT_NODE_ID = -1
# Recorded numbers are rounded, so recomputed sums differ a little.
_ABSOLUTE_TOLERANCE, _RELATIVE_TOLERANCE = 2e-3, 1e-5


@dataclass(frozen=True)
class _PathNode:
    """A node of the search tree with a link to its parent."""

    # Linked, not copied: copied paths would take memory that grows with the square of the length.
    node: BeamNode
    above: _PathNode | None
    length: int
    """New tokens from the prompt to this node."""

    def path(self) -> tuple[int, ...]:
        tokens: list[int] = []
        place: _PathNode | None = self
        while place is not None:
            tokens.append(place.node.token_id)
            place = place.above
        return tuple(reversed(tokens))


def check_beams(trace: Trace) -> None:
    """Check the tree of a beam search; traces of other strategies pass.

    - Every node extends a node that the previous step kept.
    - Sums are the sums of their paths; scores are sum / length ** length_penalty.
    - At most num_beams nodes are kept.
    - Every output is the path of a finished hypothesis or of one still open at the end. Exempt are
      outputs without a score after the first: they pad the count if fewer texts were possible.

    Raises:
        TraceError: a rule is broken; the message names the step.
    """
    places: dict[int, _PathNode] = {}
    kept: set[int] = {PROMPT_NODE_ID}
    last = None
    for step in trace.steps:
        if not isinstance(step.detail, BeamDetail):
            continue
        if last is None:
            _check_config(trace.config, {node.group for node in step.detail.pool})
        where, last = Message("Step {step}", step=step.index), step.detail
        for node in last.pool:
            _check_node(where, node, kept, places, trace)
        kept = {node.node_id for node in last.pool if node.fate == "kept"}
        limit = trace.config["num_beams"]
        if len(kept) > limit:
            raise TraceError(
                "{where} keeps {n} beams of {most}.", where=where, n=len(kept), most=limit
            )
        for hypothesis in last.heap:
            place = places.get(hypothesis.node_id)
            if place is None or place.length != hypothesis.length:
                raise TraceError(
                    "{where} has a finished hypothesis that its tree does not hold.", where=where
                )
    if last is not None:
        _check_outputs(trace, last, kept, places)


def _check_config(config: Mapping[str, object], groups: set[int]) -> None:
    """Check the settings that rescoring uses."""
    for name in ("num_beams", "length_penalty", "early_stopping", "max_new_tokens"):
        if name not in config:
            raise TraceError("trace.config lacks {name}, which a beam search needs.", name=name)
    for name in ("num_beams", "num_beam_groups", "max_new_tokens"):
        value = config.get(name, 1)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise TraceError("trace.config.{name} must be a whole number of at least 1.", name=name)
    count = len(groups)
    if groups and (groups != {*range(count)} or count != config.get("num_beam_groups", 1)):
        raise TraceError("trace.config.num_beam_groups is not the number of groups in the pool.")


def _check_node(
    where: str, node: BeamNode, kept: set[int], places: dict[int, _PathNode], trace: Trace
) -> None:
    name = {"where": where, "id": node.node_id}
    if node.parent_id not in kept:
        raise TraceError(
            "{where} node {id} grows from {node}, which the step before did not keep.",
            **name,
            node=node.parent_id,
        )
    if node.node_id in places:
        raise TraceError("{where} node {id} occurs twice.", **name)
    above = places.get(node.parent_id)
    before = 0.0 if above is None else above.node.sum_logprobs
    if not math.isfinite(node.logprob):
        raise TraceError("{where} node {id} has a log-probability that is not finite.", **name)
    if not _is_close(node.sum_logprobs, before + node.logprob):
        raise TraceError("{where} node {id} has a sum that is not the sum of its path.", **name)
    place = _PathNode(node, above, 1 if above is None else above.length + 1)
    penalty = trace.config["length_penalty"]
    if not _is_close(node.score, node.sum_logprobs / place.length**penalty):
        raise TraceError(
            "{where} node {id} has a score that is not its sum / length ** length_penalty.", **name
        )
    places[node.node_id] = place


def _check_outputs(
    trace: Trace, last: BeamDetail, kept: set[int], places: dict[int, _PathNode]
) -> None:
    ends = {hypothesis.node_id for hypothesis in last.heap} | (kept - {PROMPT_NODE_ID})
    paths = {places[node].path() for node in ends}
    for number, output in enumerate(trace.outputs):
        # Padding sequences have no score and need not be in the tree.
        if output.token_ids not in paths and (output.score is not None or not number):
            raise TraceError("outputs[{n}] is no path of the search's tree.", n=number)
    if last.winner_node_id is None or not trace.outputs:
        return
    winner = places.get(last.winner_node_id)
    if winner is None or winner.path() != trace.outputs[0].token_ids:
        raise TraceError("outputs[0] is not the path of the search's winner.")


def _is_close(a: float, b: float) -> bool:
    return abs(a - b) <= _ABSOLUTE_TOLERANCE + _RELATIVE_TOLERANCE * abs(b)
