"""Draft models that the page offers for a model, beyond those in the page's declaration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.models.draft_pairs import made_for_early_exit, pairs_for
from playground.forms.form import strategy_of

ACTIONS = ("drafts",)


def act(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the draft models that fit a main model.

    Args:
        asked: The ``strategy`` and the ``model``.

    Returns:
        ``drafts``, each with its ``name``, whether it is ``here`` (on this machine) and the
        ``reason`` to offer it. ``early_exit``: why the model's own first layers are likely to draft
        well, else None.

    Raises:
        EngineError: The strategy does not exist.
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
