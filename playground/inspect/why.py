"""Questions about a step: why this token, why not another, and how probable a text was."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from engine.errors import ParameterError
from engine.inspection.step_questions import StepQuestion, answer_question, score_typed_text
from playground.inspect.question_fields import find_run, read_int_field
from playground.jobs.registry import JOBS, OTHERS_ASK_MESSAGE, QUESTION_WAIT_S, JobKind

_PROBABILITY_ACTION = "odds"
ACTIONS = ("why", _PROBABILITY_ACTION)
# Few questions are computed at once, so that runs keep the processor.
_KIND = JobKind("why", slots=2, wait_s=QUESTION_WAIT_S, busy=OTHERS_ASK_MESSAGE)


def act(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Answer one question.

    Args:
        payload: ``action``, why or odds (the model's probability of the ``text``); ``run``, the id of
            a run of this server, or ``trace``, a run as JSON values up to the step; ``step`` from
            0; one of ``token_id``, ``text`` and ``node_id``, or none of them for the token that was
            chosen; ``at``, a position in a round of drafting; ``quick``, whether an answer from the
            recorded candidates is enough.

    Returns:
        The answer as JSON values. Only ``forgotten`` if the run is not cached any more and the page
        must send its trace.

    Raises:
        EngineError: One sentence naming what is wrong.
    """
    run = find_run(payload)
    if run is None:
        return {"forgotten": True}
    text = payload.get("text")
    if text is not None and not isinstance(text, str):
        raise ParameterError("text", text, "it must be text")
    if payload.get("action") == _PROBABILITY_ACTION:
        step = read_int_field(payload, "step") or 0
        with JOBS.run(_KIND):
            return {"odds": dataclasses.asdict(score_typed_text(run, step, text or ""))}
    question = StepQuestion(
        step=read_int_field(payload, "step") or 0,
        token_id=read_int_field(payload, "token_id"),
        text=text,
        node_id=read_int_field(payload, "node_id"),
        at=read_int_field(payload, "at"),
        quick=payload.get("quick") is True,
    )
    with JOBS.run(_KIND):
        answer, note = answer_question(run, question)
    fields = {f.name: getattr(answer, f.name) for f in dataclasses.fields(answer)}
    del fields["claim"]
    facts = [dataclasses.asdict(fact) for fact in answer.facts]
    return {"answer": {**fields, "facts": facts, "said": note}}
