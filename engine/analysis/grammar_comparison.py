"""What a grammar makes of a model's choice: exact for a small grammar, estimated for a larger one."""

from __future__ import annotations

import threading

from engine.analysis.allowed_texts import (
    BRANCH_REFUSED,
    AllowedTexts,
    TooManyTextsError,
    list_allowed_texts,
)
from engine.analysis.grammar_draws import DRAWS, GrammarEstimate, estimate_allowed_texts
from engine.errors import EngineError
from engine.run.request import DecodeRequest, request_from_trace
from engine.run.scheduler import EventCallback, ignore_event
from engine.trace.records import Trace


def grammar_request(trace: Trace) -> DecodeRequest:
    """Return the request of a recorded run, to ask what its grammar allows.

    Raises:
        EngineError: the run is a branch, or cannot be repeated here.
    """
    # Its prompt ends with the beginning of a text, so its grammar would begin in the wrong place.
    if trace.parent is not None:
        raise EngineError(BRANCH_REFUSED)
    return request_from_trace(trace)


def compare_grammar(
    request: DecodeRequest,
    draws: int | None = None,
    cancelled: threading.Event | None = None,
    tell: EventCallback = ignore_event,
) -> AllowedTexts | GrammarEstimate:
    """Return the list of all texts that a request's grammar allows, or an estimate from draws.

    Args:
        request: a request with ``structured_outputs``.
        draws: estimate from so many draws; None to list the texts, and to draw ``DRAWS`` times if they
            are too many to list.
        cancelled: stops between two passes when set.
        tell: receives Waiting and Loading events.

    Raises:
        Cancelled: it was stopped.
        EngineError: the request is invalid, or the draws count like too few equal ones.
    """
    if draws is None:
        try:
            return list_allowed_texts(request, cancelled, tell)
        except TooManyTextsError:
            draws = DRAWS
    return estimate_allowed_texts(request, draws, cancelled, tell)
