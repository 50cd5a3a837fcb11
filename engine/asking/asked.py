"""Questions about recorded runs as they come: which run, which step, which token; answers stay ready."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from engine.aside import aside
from engine.asking.again import ONLY_ONCE, Moment, place_of
from engine.asking.at_hand import at_hand
from engine.asking.kept import KeptRun
from engine.asking.reasons import Reason, quoted
from engine.asking.why import why
from engine.errors import ParameterError
from engine.models.loading import LoadedModel
from engine.models.text import decode_ids, encode_after
from engine.trace.details import BeamDetail
from engine.trace.records import Step, Trace, replay_ids

NOT_YET = "The step can be made again for an exact answer."
_READY = 8
_LONGEST = 200
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
    trace, kept = (asked.trace, asked) if isinstance(asked, KeptRun) else (asked, None)
    count = len(trace.steps)
    if not 0 <= question.step < count:
        raise ParameterError("step", question.step, f"the run has steps 0 to {count - 1}")
    # Threads that once computed slow others down as long as they live.
    made = partial(place_of, trace, question.step, model, assistant)
    return aside(lambda: _answered(_place(trace, kept, question, made), question))


def _answered(place: Moment, question: Question) -> tuple[Reason, str]:
    token, said = question.token_id, ""
    if question.text is not None:
        token, said = _read(place, question)
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


def _read(place: Moment, question: Question) -> tuple[int, str]:
    """Return the first token of a text where it would stand, and a sentence when it has more."""
    text = question.text or ""
    if not 1 <= len(text) <= _LONGEST:
        raise ParameterError("text", text[:20], f"write 1 to {_LONGEST} characters")
    if place.run is None:
        return _recorded(place, text), ""
    tokenizer = place.target.tokenizer
    if tokenizer is None:
        raise ParameterError("text", text, "the model has no tokenizer: choose a candidate")
    ids = encode_after(tokenizer, decode_ids(tokenizer, _before(place, question.at)), text)
    if not ids:
        raise ParameterError("text", text, "it has no tokens; write something")
    if len(ids) == 1:
        return ids[0], ""
    first = quoted(place.piece(ids[0]))
    return ids[0], f"{quoted(text)} takes {len(ids)} tokens here; this is about the first, {first}."


def _recorded(place: Moment, text: str) -> int:
    """Return the recorded candidate that is written so."""
    for candidate in place.step.candidates:
        if place.piece(candidate.token_id).strip() == text.strip():
            return candidate.token_id
    raise ParameterError(
        "text", text, f"only recorded candidates are known of this step. {place.refused}"
    )


def _before(place: Moment, at: int | None) -> Sequence[int]:
    """Return the ids before what a step wrote."""
    step: Step = place.step
    start = [] if place.trace.model.is_encoder_decoder else list(place.trace.prompt_ids)
    if isinstance(step.detail, BeamDetail):
        return place.views[0].input_ids[0].tolist() if place.views else start
    same = tuple(s for s in place.trace.steps[: step.index] if s.sequence == step.sequence)
    where = len(step.emit) - 1 if at is None else at
    return [*start, *replay_ids(same)[: step.keep], *step.emit[:where]]
