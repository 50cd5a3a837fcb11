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
from engine.inspection.explanation import Explanation
from engine.inspection.from_cache import rebuild_from_cache
from engine.inspection.logits_cache import CachedRun
from engine.inspection.rerun import CUSTOM_METHOD_REFUSAL, ReplayedStep, replay_to_step
from engine.inspection.typed_probability import TypedProbability, compute_typed_probability
from engine.inspection.typed_token import ids_before, read_typed_token
from engine.inspection.why import explain_token
from engine.messages import Message
from engine.models.loading import LoadedModel
from engine.one_shot_thread import run_in_thread
from engine.trace.records import Trace

RECOMPUTE_HINT = "The step can be made again for an exact answer."
_CACHE_SIZE = 8
_replayed_steps: OrderedDict[str, ReplayedStep] = OrderedDict()
_lock = threading.Lock()


@dataclass(frozen=True)
class StepQuestion:
    """A question about a token of a step.

    Attributes:
        step: index, from 0.
        token_id: id in the model's vocabulary; None for the chosen token, or for ``text``.
        text: alternative to ``parse_token_id``: the first token of this text at the step's position.
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


def answer_question(
    asked: CachedRun | Trace,
    question: StepQuestion,
    model: LoadedModel | None = None,
    assistant: Any = None,
) -> tuple[Explanation, str]:
    """Explain why a step chose a token or did not.

    Args:
        asked: a cached run, or a trace; steps after the one in question may be missing.
        question: see ``StepQuestion``.
        model: a LoadedModel that replaces the one the trace names.
        assistant: a LoadedModel that replaces the trace's draft model.

    Returns:
        The explanation, and a sentence on how its text was tokenized ("" for none).

    Raises:
        ParameterError: the step, token, node or position does not exist.
    """
    found = _step_loader(asked, question, model, assistant)
    # OpenMP keeps workers for every thread that ever computed; idle ones slow small models down.
    return run_in_thread(lambda: _explain_step(found(), question))


def score_typed_text(
    asked: CachedRun | Trace,
    step: int,
    text: str,
    model: LoadedModel | None = None,
    assistant: Any = None,
) -> TypedProbability:
    """Return the model's probability of a typed text at a step.

    Args:
        asked: a cached run or a trace, as for ``answer_question``.
        step: index, from 0.
        text: 1 to 200 characters; see ``odds.odds_of``.
        model: a LoadedModel that replaces the one the trace names.
        assistant: a LoadedModel that replaces the trace's draft model.

    Raises:
        ParameterError: the step does not exist, or nothing is known about the text.
    """
    found = _step_loader(asked, StepQuestion(step), model, assistant)
    return run_in_thread(lambda: compute_typed_probability(found(), text))


def _step_loader(
    asked: CachedRun | Trace, question: StepQuestion, model: LoadedModel | None, assistant: Any
) -> Callable[[], ReplayedStep]:
    """Check the step's index and return a function that loads the step.

    Raises:
        ParameterError: the step does not exist.
    """
    trace, kept = (asked.trace, asked) if isinstance(asked, CachedRun) else (asked, None)
    count = len(trace.steps)
    if not 0 <= question.step < count:
        raise ParameterError(
            "step", question.step, Message("the run has steps 0 to {count}", count=count - 1)
        )
    made = partial(replay_to_step, trace, question.step, model, assistant)
    return lambda: _load_step(trace, kept, question, made)


def _explain_step(place: ReplayedStep, question: StepQuestion) -> tuple[Explanation, str]:
    token, said = question.token_id, ""
    if question.text is not None:
        token, said = read_typed_token(place, question.text, ids_before(place, question.at))
    return explain_token(place, token, node_id=question.node_id, at=question.at), said


def _load_step(
    trace: Trace, kept: CachedRun | None, question: StepQuestion, make: Callable[[], ReplayedStep]
) -> ReplayedStep:
    """Return the replayed step from the cache; otherwise rebuild it or rerun the run."""
    key = _cache_key(trace, question.step)
    with _lock:
        found = _replayed_steps.get(key)
    if found is not None:
        return found
    step = trace.steps[question.step]
    found = None if kept is None else rebuild_from_cache(kept, step)
    if found is None:
        if question.quick:
            return ReplayedStep(
                trace,
                step,
                refused=RECOMPUTE_HINT if trace.method is None else CUSTOM_METHOD_REFUSAL,
            )
        found = make()
    if found.refused:
        return found
    with _lock:
        _replayed_steps[key] = found
        while len(_replayed_steps) > _CACHE_SIZE:
            _replayed_steps.popitem(last=False)
    return found


def _cache_key(trace: Trace, step: int) -> str:
    # Everything the step's logits and draws depend on.
    written = [(s.keep, s.emit, s.sequence) for s in trace.steps[: step + 1]]
    known = (trace.strategy, trace.model.id, trace.config, trace.seed, trace.prompt_ids, written)
    return hashlib.sha256(json.dumps([step, known], default=str).encode()).hexdigest()
