"""The token that a step chose, and the ids before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.errors import ParameterError
from engine.messages import Message
from engine.trace.details import BeamDetail, BeamNode
from engine.trace.filling import FillDetail
from engine.trace.records import (
    Step,
    Trace,
    check_step_index,
    chosen_emit_index,
    replay_ids,
)


@dataclass(frozen=True)
class TargetToken:
    """A token of a run and everything before it.

    Attributes:
        prompt_ids: the run's prompt.
        before: new ids between the prompt and the token.
        token_id: the chosen token.
    """

    prompt_ids: tuple[int, ...]
    before: tuple[int, ...]
    token_id: int


def find_target_token(
    trace: Trace, index: int, *, node_id: int | None = None, at: int | None = None
) -> TargetToken:
    """Return the token of a step with the ids before it.

    Args:
        trace: the run; steps after the one in question may be missing.
        index: index of the step, from 0.
        node_id: beam searches: a node of the step's pool; None is the best surviving one.
        at: index among the tokens the step wrote, from 0; None is the one its candidates belong to.

    Raises:
        ParameterError: the step, node or token does not exist.
    """
    step = trace.steps[check_step_index(trace.steps, index)]
    prompt = tuple(trace.prompt_ids)
    if isinstance(step.detail, BeamDetail):
        return TargetToken(prompt, *_find_node_target(trace, step, step.detail, node_id))
    if node_id is not None:
        raise ParameterError("node_id", node_id, "only beam searches have nodes")
    if isinstance(step.detail, FillDetail):
        raise ParameterError(
            "step", index, "a pass of masked diffusion reads the whole text, in both directions"
        )
    if not step.emit:
        raise ParameterError("step", index, "this step wrote nothing; ask about another one")
    place = chosen_emit_index(step) if at is None else at
    if not 0 <= place < len(step.emit):
        raise ParameterError(
            "at", at, Message("the round wrote tokens 0 to {last}", last=len(step.emit) - 1)
        )
    # One list holds the steps of all sequences.
    same = tuple(s for s in trace.steps[:index] if s.sequence == step.sequence)
    before = (*replay_ids(same)[: step.keep], *step.emit[:place])
    return TargetToken(prompt, before, step.emit[place])


def _find_node_target(
    trace: Trace, step: Step, detail: BeamDetail, node_id: int | None
) -> tuple[tuple[int, ...], int]:
    """Return the new ids before a node, and its token."""
    pool = {node.node_id: node for node in detail.pool}
    if node_id is None:
        alive = [node for node in detail.pool if node.fate in ("kept", "finished")]
        node = max(alive or detail.pool, key=lambda node: node.sum_logprobs)
    elif node_id in pool:
        node = pool[node_id]
    else:
        raise ParameterError("node_id", node_id, "this step has no such node in its pool")
    nodes = {
        known.node_id: known
        for earlier in trace.steps[: step.index + 1]
        if isinstance(earlier.detail, BeamDetail)
        for known in earlier.detail.pool
    }
    return _parent_tokens(nodes, node), node.token_id


def _parent_tokens(nodes: Mapping[int, BeamNode], node: BeamNode) -> tuple[int, ...]:
    """Return the tokens of a node's ancestors, oldest first."""
    tokens: list[int] = []
    while node.parent_id in nodes:
        node = nodes[node.parent_id]
        tokens.append(node.token_id)
    return tuple(tokens[::-1])
