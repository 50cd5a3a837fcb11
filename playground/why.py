"""Why this token, why not that one, how probable was that text: the page asks about a step, and the engine answers."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from engine.asking.asked import Question, answered, guessed
from engine.asking.kept import KEPT_RUNS, KeptRun
from engine.errors import BusyError, EngineError, ParameterError
from engine.trace.json_io import trace_from_dict
from engine.trace.records import Trace

Answer = TypeVar("Answer")
_ODDS = "odds"
ACTIONS = ("why", _ODDS)
_AT_WORK = threading.Semaphore(2)
"""Questions computed at a time: runs come first."""
_WAIT_S = 20.0
_LARGEST = 2**31


def act(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Answer one question.

    Args:
        asked: ``action``, why or odds (how probable the model held the ``text`` to be);
            ``run``, the id of a run that was made here, or ``trace``, a run as JSON values up to
            the step; ``step`` from 0; and one of ``token_id``, ``text``, ``node_id`` or none of them,
            which is about the token that was taken; ``at``, a place in a round of drafting;
            ``quick``, whether an answer from the record will do.

    Returns:
        The answer as JSON values; ``forgotten`` alone where the run is not remembered, so that its
        trace is to be sent.

    Raises:
        EngineError: one sentence naming what is wrong.
    """
    run = _which(asked)
    if run is None:
        return {"forgotten": True}
    text = asked.get("text")
    if text is not None and not isinstance(text, str):
        raise ParameterError("text", text, "it must be text")
    if asked.get("action") == _ODDS:
        step = _whole(asked, "step") or 0
        return {"odds": dataclasses.asdict(_computed(lambda: guessed(run, step, text or "")))}
    question = Question(
        step=_whole(asked, "step") or 0,
        token_id=_whole(asked, "token_id"),
        text=text,
        node_id=_whole(asked, "node_id"),
        at=_whole(asked, "at"),
        quick=asked.get("quick") is True,
    )
    answer, said = _computed(lambda: answered(run, question))
    told = {f.name: getattr(answer, f.name) for f in dataclasses.fields(answer)}
    del told["claim"]
    facts = [dataclasses.asdict(fact) for fact in answer.facts]
    return {"answer": {**told, "facts": facts, "said": said}}


def _computed(answer: Callable[[], Answer]) -> Answer:
    """Answer when it is the question's turn.

    Raises:
        BusyError: others are asking for too long.
    """
    if not _AT_WORK.acquire(timeout=_WAIT_S):
        raise BusyError("Others are asking, too; try again in a moment.")
    try:
        return answer()
    finally:
        _AT_WORK.release()


def _whole(asked: Mapping[str, Any], name: str) -> int | None:
    value = asked.get(name)
    if value is not None and (type(value) is not int or not 0 <= value < _LARGEST):
        raise ParameterError(name, value, "it must be a whole number from 0")
    return value


def _which(asked: Mapping[str, Any]) -> KeptRun | Trace | None:
    """Return the run that is asked about, None where it is not remembered."""
    data = asked.get("trace")
    if data is None:
        run_id = asked.get("run")
        return KEPT_RUNS.get(run_id) if isinstance(run_id, str) else None
    try:
        json.dumps(data, allow_nan=False)
        return trace_from_dict(data)
    except (ValueError, TypeError, RecursionError):
        raise EngineError("The run is not valid JSON.") from None
