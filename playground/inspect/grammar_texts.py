"""What a run's grammar made of the model's choice: every allowed text, or an estimate from draws."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from engine.analysis.allowed_texts import MAX_TEXTS, AllowedTexts
from engine.analysis.grammar_comparison import compare_grammar, grammar_request
from engine.trace.records import Trace
from playground.inspect.question_fields import find_run
from playground.jobs.registry import JOBS, OTHERS_ASK_MESSAGE, QUESTION_WAIT_S, JobKind

ACTIONS = ("grammar_texts",)
# A question holds a thread while it computes, and its passes wait in the queue of runs.
_KIND = JobKind(
    "grammar_texts", slots=2, wait_s=QUESTION_WAIT_S, busy=OTHERS_ASK_MESSAGE, latest_only=True
)


def act(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the model would choose among the texts of a run's grammar, and what the grammar makes of it.

    Args:
        payload: ``run``, the id of a run decoded here, or ``trace``, a trace as JSON values whose steps
            may be left out; ``press``, an id; an earlier question with it is cancelled.

    Returns:
        ``found``: the fields of an ``AllowedTexts`` or a ``GrammarEstimate``; ``exact`` says which;
        ``texts`` has at most MAX_TEXTS, those with the largest share either way, and ``count`` is the
        number of all. Only ``forgotten`` if the run is not cached; the page then sends its trace.

    Raises:
        Cancelled: the client asked again or stopped.
        EngineError: the run has no grammar, or too few draws count.
    """
    run = find_run(payload)
    if run is None:
        return {"forgotten": True}
    request = grammar_request(run if isinstance(run, Trace) else run.header)
    with JOBS.run(_KIND, payload.get("press")) as job:
        found = compare_grammar(request, cancelled=job.cancelled)
    most = sorted(found.texts, key=lambda one: -max(one.own, one.masked))[:MAX_TEXTS]
    shown = [dataclasses.asdict(one) for one in sorted(most, key=lambda one: -one.own)]
    facts = {
        "texts": shown,
        "count": len(found.texts),
        "exact": isinstance(found, AllowedTexts),
    }
    return {"found": {**dataclasses.asdict(found), **facts}}
