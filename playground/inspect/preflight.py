"""Model details for the page: what a model is and costs, before it is loaded."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from engine.declare.weights import parse_weights
from engine.run.preflight import preflight
from engine.sources.source import Source
from playground.forms.form import form_weights, read_strategy

ACTIONS = ("preflight",)


def act(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the details of a model without loading it.

    Args:
        payload: The ``model``; the ``strategy`` whose form names it; and its ``params``, which
            include how the weights are loaded. With ``here`` the hub is not queried, and a remote
            model has no details.

    Returns:
        ``told``, pairs of a subject and a text; ``notes``, sentences on possible problems; and
        ``takes``, ``needs`` and ``speech`` as in ``takes.declared``.

    Raises:
        EngineError: One sentence naming the problem.
    """
    strategy = read_strategy(payload)
    said = form_weights(strategy, payload.get("params") or {})
    held, _ = parse_weights(said, strategy.name, assistant=True)
    source = Source.parse(payload.get("model"))
    if payload.get("here") and source.folder() is None:
        return {"told": [], "notes": []}
    found = preflight(source, held)
    speech = None if found.speech is None else dataclasses.asdict(found.speech)
    takes = {"takes": list(found.takes), "needs": found.needs, "speech": speech}
    return {"told": found.to_pairs(), "notes": list(found.notes), **takes}
