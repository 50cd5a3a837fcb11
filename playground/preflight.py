"""What a model is and costs, told under the field that names it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from engine.declare.weights import read_weights
from engine.run.preflight import preflight
from playground.form import form_weights, strategy_of

ACTIONS = ("preflight",)


def act(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of a model that was not loaded.

    Args:
        asked: the ``model``; the ``strategy`` whose form names it, and its ``params``, which say how the
            weights are held.

    Returns:
        ``told``, pairs of a subject and a text, and ``notes``, sentences on what stands in the way; ``takes``,
        ``needs`` and ``speech`` as in ``takes.declared``.

    Raises:
        EngineError: one sentence.
    """
    strategy = strategy_of(asked)
    said = form_weights(strategy, asked.get("params") or {})
    held, _ = read_weights(said, strategy.name, assistant=True)
    found = preflight(asked.get("model"), held)
    speech = None if found.speech is None else dataclasses.asdict(found.speech)
    takes = {"takes": list(found.takes), "needs": found.needs, "speech": speech}
    return {"told": found.told(), "notes": list(found.notes), **takes}
