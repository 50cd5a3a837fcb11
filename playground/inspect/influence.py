"""Questions about influence: how much each earlier position affected a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.errors import ParameterError
from engine.inspection.influence import InfluenceQuestion, compute_influence
from engine.inspection.influence_methods import ATTENTION
from engine.inspection.influence_values import influence_to_dict
from playground.inspect.question_fields import find_run, read_int_field
from playground.jobs.registry import JOBS, JobKind

ACTIONS = ("looked",)
# Two questions at a time: runs have priority.
_KIND = JobKind("looked", slots=2, latest_only=True)


def act(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the influence of each earlier position on a step's attention or token.

    Args:
        payload: ``run``, the id of a run decoded here, or ``trace``, a trace as JSON values up to the
            step; ``step`` from 0; ``method``, one of
            ``engine.inspection.influence_methods.METHODS``; ``node_id``, a node of a search;
            ``at``, a position in a draft round; ``layer`` and ``head`` from 0, None for the mean
            over all; ``press``, an id; an earlier question with it is cancelled.

    Returns:
        The answer as JSON values. Only ``forgotten`` if the run is not cached; the page then sends
        its trace.

    Raises:
        Cancelled: the client asked again or cancelled.
        EngineError: a value is not valid, or the question cannot be answered.
    """
    method = payload.get("method", ATTENTION)
    if not isinstance(method, str):
        raise ParameterError("method", method, "it must be text")
    look = InfluenceQuestion(
        read_int_field(payload, "step") or 0,
        method,
        read_int_field(payload, "node_id"),
        read_int_field(payload, "at"),
    )
    layer, head = read_int_field(payload, "layer"), read_int_field(payload, "head")
    # Before waiting for a slot: the page must learn at once that it has to send the trace.
    run = find_run(payload)
    if run is None:
        return {"forgotten": True}
    with JOBS.run(_KIND, payload.get("press")) as job:
        return influence_to_dict(compute_influence(run, look, job.cancelled), layer, head)
