"""The explanation of one token of one step: why it was chosen, or why not."""

from __future__ import annotations

from engine.errors import ParameterError
from engine.inspection import beams, contrastive, dola, drafting, from_record, next_token, watermark
from engine.inspection.explanation import Explainer, Explanation
from engine.inspection.filter_chain import FilterChain
from engine.inspection.rerun import ReplayedStep
from engine.messages import Message, join_messages
from engine.number_text import format_token
from engine.trace.details import (
    BeamDetail,
    BeamNode,
    ContrastiveDetail,
    DraftDetail,
    LayerDetail,
    WatermarkDetail,
)
from engine.trace.filling import FillDetail
from engine.trace.records import chosen_token_id


def explain_token(
    place: ReplayedStep,
    token_id: int | None = None,
    *,
    node_id: int | None = None,
    at: int | None = None,
) -> Explanation:
    """Explain why a step chose a token or did not.

    Args:
        place: the replayed step; see ``find_replayed_step``.
        token_id: id in the model's vocabulary; None is the chosen token.
        node_id: beam searches: a node of the step's pool, instead of the token.
        at: drafting: index among the round's tokens, from 0; None is the last.

    Raises:
        ParameterError: the token, node or position does not exist.
    """
    _check_question(place, token_id, node_id)
    draft = Explainer()
    token = _write_explanation(place, token_id, node_id, at, draft)
    return Explanation(
        token,
        format_token(place.piece(token)),
        join_messages(draft.sentences),
        draft.chosen,
        tuple(draft.facts),
        draft.claim,
        _scope_sentence(place),
        bool(place.views),
    )


def _check_question(place: ReplayedStep, token_id: int | None, node_id: int | None) -> None:
    size = place.trace.model.vocab_size
    if token_id is not None and not 0 <= token_id < max(size, 1):
        raise ParameterError(
            "token_id", token_id, Message("token ids go from 0 to {size}", size=size - 1)
        )
    fills = isinstance(place.step.detail, FillDetail)
    if not place.step.emit and not fills and token_id is None and node_id is None:
        raise ParameterError("token_id", token_id, "this step wrote nothing; name a token")
    if node_id is None:
        return
    detail = place.step.detail
    if not isinstance(detail, BeamDetail):
        raise ParameterError("node_id", node_id, "only beam searches have nodes")
    if all(node.node_id != node_id for node in detail.pool):
        raise ParameterError("node_id", node_id, "this step has no such node in its pool")


def _write_explanation(
    place: ReplayedStep, token_id: int | None, node_id: int | None, at: int | None, draft: Explainer
) -> int:
    """Write the explanation; return the token it is about."""
    detail = place.step.detail
    own = chosen_token_id(place.step)
    if isinstance(detail, FillDetail):
        own = max(detail.guesses, key=lambda guess: (guess.written, guess.p)).token_id
    last = -1 if own is None else own
    token = last if token_id is None else token_id
    if isinstance(detail, BeamDetail):
        token = _node_token(detail, token_id, node_id)
    if not place.views:
        node = _find_node(place, token, node_id)
        if node is None:
            from_record.explain(place, token, draft)
        else:
            from_record.explain_node(place, node, draft)
        return token
    if isinstance(detail, BeamDetail):
        beams.explain(place, detail, token, draft, node_id)
        return token
    if isinstance(detail, DraftDetail):
        return drafting.explain(place, detail, token_id, draft, at)
    chain = FilterChain(place.views[0], place.row)
    if isinstance(detail, ContrastiveDetail):
        contrastive.explain(place, chain, detail, token, draft)
        return token
    race = next_token.redraw_race(place, chain) if next_token.is_sampled_step(place) else None
    if isinstance(detail, LayerDetail):
        dola.explain(place, chain, detail, token, draft, race)
    elif isinstance(detail, WatermarkDetail):
        watermark.explain(place, chain, token, draft, race)
    else:
        next_token.explain(place, chain, token, draft, race, "greedy search")
    return token


def _node_token(detail: BeamDetail, token_id: int | None, node_id: int | None) -> int:
    """Return the token in question; by default that of the best surviving text."""
    if node_id is not None:
        return next(node.token_id for node in detail.pool if node.node_id == node_id)
    if token_id is not None:
        return token_id
    alive = [node for node in detail.pool if node.fate in ("kept", "finished")]
    return max(alive or detail.pool, key=lambda node: node.sum_logprobs).token_id


def _find_node(place: ReplayedStep, token_id: int, node_id: int | None) -> BeamNode | None:
    """Return the search node in question; for a token, the best node with it."""
    detail = place.step.detail
    if not isinstance(detail, BeamDetail):
        return None
    same = [n for n in detail.pool if n.node_id == node_id or n.token_id == token_id]
    if node_id is not None:
        same = [n for n in same if n.node_id == node_id]
    return max(same, key=lambda n: (n.fate in ("kept", "finished"), n.sum_logprobs), default=None)


def _scope_sentence(place: ReplayedStep) -> str:
    if place.views:
        size = place.views[0].logits.shape[-1]
        return Message("Exact over the whole vocabulary of {size} tokens.", size=f"{size:,}")
    found = len(place.step.candidates)
    return join_messages(
        [
            Message("Based on the {found} candidates saved with this run.", found=found),
            place.refused,
        ]
    )
