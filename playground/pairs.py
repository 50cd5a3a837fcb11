"""Which drafts the page offers for a model, beyond those that the declaration names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.models.pairs import made_for_early_exit, pairs_for
from playground.form import strategy_of

ACTIONS = ("drafts",)


def act(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what can draft for a model.

    Args:
        asked: the ``strategy`` and the ``model``.

    Returns:
        ``drafts``, each with its name, whether it is ``here`` and the reason it is offered; ``early_exit``, why the
        model's own first layers can be expected to draft well, else null.

    Raises:
        EngineError: there is no such strategy.
    """
    strategy, given = strategy_of(asked), asked.get("model")
    model = given if isinstance(given, str) else ""
    pairs = [] if strategy.assistant == "none" else pairs_for(model, strategy.assistant)
    return {
        "drafts": [
            {"name": pair.name, "here": pair.values is not None, "reason": pair.reason}
            for pair in pairs
        ],
        "early_exit": made_for_early_exit(model) if strategy.name == "early_exit" else None,
    }
