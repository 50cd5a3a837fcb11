"""Compatibility of models and strategies, with the reason for each incompatibility."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from engine.errors import ModelError
from engine.loops.teacher_forced import is_causal
from engine.messages import Message
from engine.models.capabilities import Capabilities
from engine.models.meta_model import describe_model
from engine.sources.source import Source
from engine.strategies.base import Strategy

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel

Requirement = tuple[Callable[[Capabilities], bool], str]

REQUIREMENTS: Mapping[str, Requirement] = {
    "decoder_only": (
        lambda can: not can.is_encoder_decoder,
        "this needs a decoder-only model",
    ),
    "rewind": (
        lambda can: can.can_rewind,
        "its cache cannot go back over the drafted tokens that are rejected",
    ),
    "exits": (lambda can: can.exits, "its layers cannot be left early"),
    "heads": (lambda can: can.heads > 0, "it has no heads that guess several tokens"),
    "fills": (lambda can: can.fills, "no model that fills hidden places comes with it"),
    "layers_without_state": (
        lambda can: can.layers_without_state,
        "its layers keep a running state that the draft would spoil",
    ),
    "shows_layers": (
        lambda can: can.shows_layers,
        "its layers do not show what they would say",
    ),
}
"""Name -> (test of a model's capabilities, reason if it fails)."""


def incompatibility_reason(
    strategy: Strategy, model: Source | LoadedModel, assistant: Source | LoadedModel | None = None
) -> str | None:
    """Return why a model, or its draft model, cannot run a strategy; None if it can.

    Args:
        strategy: one of STRATEGIES' values.
        model: a LoadedModel or a Source; one without files on this machine counts as compatible.
        assistant: the draft model, likewise; None checks the model alone.

    Returns:
        One sentence that names model, strategy and reason.
    """
    return _model_incompatibility(strategy, model, strategy.needs, as_draft=False) or (
        None
        if assistant is None
        else _model_incompatibility(strategy, assistant, strategy.draft_needs, as_draft=True)
    )


def uses_cache(strategy: Strategy, can: Capabilities) -> bool:
    """Return True if a run uses a KV cache; without one, every step reads the whole text.

    Args:
        strategy: one of STRATEGIES' values.
        can: capabilities of the model.
    """
    return can.has_cache and (can.can_reorder or not strategy.reorders)


def check_judges_drafts(strategy: Strategy, target: LoadedModel) -> None:
    """Check that the target's verdict on a drafted token does not depend on the tokens after it.

    The caller must have the model's turn.

    Raises:
        ModelError: it does, and the strategy drafts.
    """
    if strategy.group == "faster" and not is_causal(target):
        raise ModelError(
            "{name} cannot be used with {method}: {reason}.",
            name=target.name,
            method=strategy.title,
            reason="a later token changes what it says of an earlier place",
        )


def _model_incompatibility(
    strategy: Strategy, model: Source | LoadedModel, needs: tuple[str, ...], *, as_draft: bool
) -> str | None:
    try:
        can = describe_model(model) if isinstance(model, Source) else model.capabilities
    except ModelError as error:
        return str(error)
    if can is None:  # the files are not on this machine, so nothing is known
        return None
    reason = _unsupported_model_reason(can) or next(
        (REQUIREMENTS[n][1] for n in needs if not REQUIREMENTS[n][0](can)), None
    )
    if reason is None:
        return None
    template = (
        "{name} cannot be used as a draft with {method}: {reason}."
        if as_draft
        else "{name} cannot be used with {method}: {reason}."
    )
    return Message(template, name=model.name, method=strategy.title, reason=reason)


def _unsupported_model_reason(can: Capabilities) -> str | None:
    """Return why no strategy can use the model, or None."""
    if can.reads != "text" and not can.takes:
        return Message("it reads {what} in a way that is not known here", what=can.reads)
    if can.own_generate:
        return "it writes with its own generate(), which cannot be recorded"
    return None
