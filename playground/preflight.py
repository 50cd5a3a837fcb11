"""What a model is and costs, told under the field that names it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from engine.declare.weights import read_weights
from engine.models import files
from engine.run.preflight import preflight
from playground.form import form_weights, strategy_of

ACTIONS = ("preflight",)


def act(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of a model that was not loaded.

    Args:
        asked: the ``model``; the ``strategy`` whose form names it, and its ``params``, which say how the
            weights are held; with ``here`` the hub is not asked, and nothing told of what is elsewhere.

    Returns:
        ``told``, pairs of a subject and a text, and ``notes``, sentences on what stands in the way; ``takes``,
        ``needs`` and ``speech`` as in ``takes.declared``.

    Raises:
        EngineError: one sentence.
    """
    strategy = strategy_of(asked)
    said = form_weights(strategy, asked.get("params") or {})
    held, _ = read_weights(said, strategy.name, assistant=True)
    model = asked.get("model")
    if asked.get("here") and not _is_here(model):
        return {"told": [], "notes": []}
    found = preflight(model, held)
    speech = None if found.speech is None else dataclasses.asdict(found.speech)
    takes = {"takes": list(found.takes), "needs": found.needs, "speech": speech}
    return {"told": found.told(), "notes": list(found.notes), **takes}


def _is_here(model: Any) -> bool:
    files.check_name(model)
    return files.local_folder(model) is not None
