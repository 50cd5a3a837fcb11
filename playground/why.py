"""Why this token, why not that one, how probable was that text: the page asks about a step, and the engine answers."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from engine.asking.asked import Question, answered, guessed
from engine.errors import BusyError, ParameterError
from playground.asking import run_sent, whole

Answer = TypeVar("Answer")
_ODDS = "odds"
ACTIONS = ("why", _ODDS)
_AT_WORK = threading.Semaphore(2)
"""Questions computed at a time: runs come first."""
_WAIT_S = 20.0


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
    run = run_sent(asked)
    if run is None:
        return {"forgotten": True}
    text = asked.get("text")
    if text is not None and not isinstance(text, str):
        raise ParameterError("text", text, "it must be text")
    if asked.get("action") == _ODDS:
        step = whole(asked, "step") or 0
        return {"odds": dataclasses.asdict(_computed(lambda: guessed(run, step, text or "")))}
    question = Question(
        step=whole(asked, "step") or 0,
        token_id=whole(asked, "token_id"),
        text=text,
        node_id=whole(asked, "node_id"),
        at=whole(asked, "at"),
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
