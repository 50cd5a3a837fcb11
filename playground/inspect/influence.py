"""Questions about influence: how much each earlier position affected a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.errors import Cancelled, ParameterError
from engine.inspection.influence import Look, looked
from engine.inspection.influence_methods import ATTENTION
from engine.inspection.influence_values import values_of
from playground.inspect.question_fields import run_sent, whole
from playground.jobs.latest_only import Turns

_STOP = "looked_stop"
ACTIONS = ("looked", _STOP)
_TURNS = Turns(2)
"""Two questions at a time: runs have priority."""


def act(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the influence of each earlier position on a step's attention or token.

    Args:
        asked: ``action``, looked, or looked_stop, which cancels the question of ``asker``; ``run``,
            the id of a run decoded here, or ``trace``, a trace as JSON values up to the step;
            ``step`` from 0; ``method``, one of ``engine.inspection.influence_methods.METHODS``; ``node_id``, a
            node of a search; ``at``, a position in a draft round; ``layer`` and ``head`` from 0,
            None for the mean over all; ``asker``, the client, whose previous question is cancelled.

    Returns:
        The answer as JSON values. Only ``forgotten`` if the run is not cached; the page then sends
        its trace. Only ``superseded`` if the client asked again or cancelled.

    Raises:
        EngineError: a value is not valid, or the question cannot be answered.
    """
    if asked.get("action") == _STOP:
        _TURNS.give_up(asked.get("asker"))
        return {}
    method = asked.get("method", ATTENTION)
    if not isinstance(method, str):
        raise ParameterError("method", method, "it must be text")
    look = Look(whole(asked, "step") or 0, method, whole(asked, "node_id"), whole(asked, "at"))
    layer, head = whole(asked, "layer"), whole(asked, "head")
    # Before waiting for a slot: the page must learn at once that it has to send the trace.
    run = run_sent(asked)
    if run is None:
        return {"forgotten": True}
    try:
        with _TURNS.of(asked.get("asker")) as cancelled:
            return values_of(looked(run, look, cancelled), layer, head)
    except Cancelled:
        return {"superseded": True}
