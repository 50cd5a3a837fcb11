"""Questions about recorded runs as they come: which run, which step, which token; answers stay ready."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from engine.aside import aside
from engine.asking.again import ONLY_ONCE, Moment, place_of
from engine.asking.at_hand import at_hand
from engine.asking.kept import KeptRun
from engine.asking.odds import Odds, odds_of
from engine.asking.reasons import Reason
from engine.asking.typed import ids_before, read
from engine.asking.why import why
from engine.errors import ParameterError
from engine.models.loading import LoadedModel
from engine.trace.records import Trace

NOT_YET = "The step can be made again for an exact answer."
_READY = 8
_places: OrderedDict[str, Moment] = OrderedDict()
_lock = threading.Lock()


@dataclass(frozen=True)
class Question:
    """What is asked of a step.

    Attributes:
        step: index, from 0.
        token_id: of the model's vocabulary; None is the token that was taken, or the text's.
        text: in place of the token: its first token, cut where it would stand.
        node_id: beam searches: a node of the step's pool, in place of the token.
        at: drafting: which of the tokens that the round wrote, from 0; None is the last.
        quick: whether an answer from the record will do where the step would have to be made again.
    """

    step: int
    token_id: int | None = None
    text: str | None = None
    node_id: int | None = None
    at: int | None = None
    quick: bool = False


def answered(
    asked: KeptRun | Trace,
    question: Question,
    model: LoadedModel | None = None,
    assistant: Any = None,
) -> tuple[Reason, str]:
    """Return the answer to a question, and a sentence about how its text was read, "" for none.

    Args:
        asked: a recent run, or a trace; steps after the one that is asked about may be missing.
        question: see ``Question``.
        model: a LoadedModel in place of the one the trace names.
        assistant: likewise.

    Raises:
        ParameterError: there is no such step, token, node or place.
    """
    found = _finding(asked, question, model, assistant)
    # Threads that once computed slow others down as long as they live.
    return aside(lambda: _answered(found(), question))


def guessed(
    asked: KeptRun | Trace,
    step: int,
    text: str,
    model: LoadedModel | None = None,
    assistant: Any = None,
) -> Odds:
    """Return how probable the model held a typed text to be at a step.

    Args:
        asked: as of ``answered``.
        step: index, from 0.
        text: 1 to 200 characters; see ``odds.odds_of``.
        model: as of ``answered``.
        assistant: likewise.

    Raises:
        ParameterError: there is no such step, or of such a text nothing is known.
    """
    found = _finding(asked, Question(step), model, assistant)
    return aside(lambda: odds_of(found(), text))


def _finding(
    asked: KeptRun | Trace, question: Question, model: LoadedModel | None, assistant: Any
) -> Callable[[], Moment]:
    """Return what finds the step that is asked about.

    Raises:
        ParameterError: there is no such step.
    """
    trace, kept = (asked.trace, asked) if isinstance(asked, KeptRun) else (asked, None)
    count = len(trace.steps)
    if not 0 <= question.step < count:
        raise ParameterError("step", question.step, f"the run has steps 0 to {count - 1}")
    made = partial(place_of, trace, question.step, model, assistant)
    return lambda: _place(trace, kept, question, made)


def _answered(place: Moment, question: Question) -> tuple[Reason, str]:
    token, said = question.token_id, ""
    if question.text is not None:
        token, said = read(place, question.text, ids_before(place, question.at))
    return why(place, token, node_id=question.node_id, at=question.at), said


def _place(
    trace: Trace, kept: KeptRun | None, question: Question, make: Callable[[], Moment]
) -> Moment:
    """Return a step as it was, which is made once for several questions about it."""
    key = _key(trace, question.step)
    with _lock:
        found = _places.get(key)
    if found is not None:
        return found
    step = trace.steps[question.step]
    found = None if kept is None else at_hand(kept, step)
    if found is None:
        if question.quick:
            return Moment(trace, step, refused=NOT_YET if trace.method is None else ONLY_ONCE)
        found = make()
    if found.refused:
        return found
    with _lock:
        _places[key] = found
        while len(_places) > _READY:
            _places.popitem(last=False)
    return found


def _key(trace: Trace, step: int) -> str:
    written = [(s.keep, s.emit, s.sequence) for s in trace.steps[: step + 1]]
    known = (trace.strategy, trace.model.id, trace.config, trace.seed, trace.prompt_ids, written)
    return hashlib.sha256(json.dumps([step, known], default=str).encode()).hexdigest()
