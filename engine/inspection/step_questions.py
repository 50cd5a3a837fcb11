"""Answers to questions about a step of a run. The newest replayed steps stay cached."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from engine.errors import ParameterError
from engine.inspection.explanation import Reason
from engine.inspection.from_cache import at_hand
from engine.inspection.logits_cache import KeptRun
from engine.inspection.rerun import ONLY_ONCE, Moment, place_of
from engine.inspection.typed_probability import Odds, odds_of
from engine.inspection.typed_token import ids_before, read
from engine.inspection.why import why
from engine.models.loading import LoadedModel
from engine.one_shot_thread import aside
from engine.trace.records import Trace

NOT_YET = "The step can be made again for an exact answer."
_READY = 8
_places: OrderedDict[str, Moment] = OrderedDict()
_lock = threading.Lock()


@dataclass(frozen=True)
class Question:
    """A question about a token of a step.

    Attributes:
        step: index, from 0.
        token_id: id in the model's vocabulary; None for the chosen token, or for ``text``.
        text: alternative to ``token_id``: the first token of this text at the step's position.
        node_id: beam searches: a node of the step's pool, instead of a token.
        at: drafting: index among the round's tokens, from 0; None is the last.
        quick: whether an answer from the recording is enough if the step would need a rerun.
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
    """Explain why a step chose a token or did not.

    Args:
        asked: a cached run, or a trace; steps after the one in question may be missing.
        question: see ``Question``.
        model: a LoadedModel that replaces the one the trace names.
        assistant: a LoadedModel that replaces the trace's draft model.

    Returns:
        The explanation, and a sentence on how its text was tokenized ("" for none).

    Raises:
        ParameterError: the step, token, node or position does not exist.
    """
    found = _finding(asked, question, model, assistant)
    # OpenMP keeps workers for every thread that ever computed; idle ones slow small models down.
    return aside(lambda: _answered(found(), question))


def guessed(
    asked: KeptRun | Trace,
    step: int,
    text: str,
    model: LoadedModel | None = None,
    assistant: Any = None,
) -> Odds:
    """Return the model's probability of a typed text at a step.

    Args:
        asked: a cached run or a trace, as for ``answered``.
        step: index, from 0.
        text: 1 to 200 characters; see ``odds.odds_of``.
        model: a LoadedModel that replaces the one the trace names.
        assistant: a LoadedModel that replaces the trace's draft model.

    Raises:
        ParameterError: the step does not exist, or nothing is known about the text.
    """
    found = _finding(asked, Question(step), model, assistant)
    return aside(lambda: odds_of(found(), text))


def _finding(
    asked: KeptRun | Trace, question: Question, model: LoadedModel | None, assistant: Any
) -> Callable[[], Moment]:
    """Check the step's index and return a function that loads the step.

    Raises:
        ParameterError: the step does not exist.
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
    """Return the replayed step from the cache; otherwise rebuild it or rerun the run."""
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
    # Everything the step's logits and draws depend on.
    written = [(s.keep, s.emit, s.sequence) for s in trace.steps[: step + 1]]
    known = (trace.strategy, trace.model.id, trace.config, trace.seed, trace.prompt_ids, written)
    return hashlib.sha256(json.dumps([step, known], default=str).encode()).hexdigest()
