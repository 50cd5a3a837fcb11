"""What a step looked at: the page asks about a step, and the engine answers with numbers for every position."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.asking.looked import Look, looked
from engine.asking.looked_values import values_of
from engine.asking.methods import ATTENTION
from engine.errors import Cancelled, ParameterError
from playground.askers import Turns
from playground.asking import run_sent, whole

_STOP = "looked_stop"
ACTIONS = ("looked", _STOP)
_TURNS = Turns(2)
"""Questions computed at a time: runs come first."""


def act(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a step looked at, or what its token hung on.

    Args:
        asked: ``action``, looked, or looked_stop, which gives up what ``asker`` asks; ``run``, the id of a run that was
            made here, or ``trace``, a run as JSON values up to the step; ``step`` from 0; ``method``, one of
            ``engine.asking.methods.METHODS``; ``node_id``, a node of a search; ``at``, a place in a round of drafting;
            ``layer`` and ``head`` from 0, None for the mean over all; ``asker``, whose earlier question is given up.

    Returns:
        The answer as JSON values; ``forgotten`` alone where the run is not remembered, so that its trace is to be
        sent; ``superseded`` alone where the asker has asked again meanwhile, or has given up.

    Raises:
        EngineError: one sentence naming what is wrong.
    """
    if asked.get("action") == _STOP:
        _TURNS.give_up(asked.get("asker"))
        return {}
    method = asked.get("method", ATTENTION)
    if not isinstance(method, str):
        raise ParameterError("method", method, "it must be text")
    look = Look(whole(asked, "step") or 0, method, whole(asked, "node_id"), whole(asked, "at"))
    layer, head = whole(asked, "layer"), whole(asked, "head")
    run = run_sent(asked)
    if run is None:
        return {"forgotten": True}
    try:
        with _TURNS.of(asked.get("asker")) as cancelled:
            return values_of(looked(run, look, cancelled), layer, head)
    except Cancelled:
        return {"superseded": True}
