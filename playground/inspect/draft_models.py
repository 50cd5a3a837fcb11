"""Draft models that the page offers for a model, beyond those in the page's declaration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.models.draft_pairs import early_exit_reason, find_draft_pairs
from engine.sources.source import Source
from playground.forms.form import read_strategy

ACTIONS = ("drafts",)


def act(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the draft models that fit a main model.

    Args:
        payload: The ``strategy`` and the ``model``.

    Returns:
        ``drafts``, each with its ``name``, whether it is ``here`` (on this machine) and the
        ``reason`` to offer it. ``early_exit``: why the model's own first layers are likely to draft
        well, else None.

    Raises:
        EngineError: The strategy does not exist.
    """
    strategy, source = read_strategy(payload), Source.find(payload.get("model"))
    pairs = [] if strategy.assistant == "none" else find_draft_pairs(source, strategy.assistant)
    early = None if strategy.name != "early_exit" or source is None else early_exit_reason(source)
    return {
        "drafts": [
            {"name": pair.name, "here": pair.values is not None, "reason": pair.reason}
            for pair in pairs
        ],
        "early_exit": early,
    }
