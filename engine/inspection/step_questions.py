"""Answers to questions about a step of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.inspection.explanation import Explanation
from engine.inspection.logits_cache import CachedRun
from engine.inspection.rerun import ReplayedStep
from engine.inspection.step_logits import find_replayed_step
from engine.inspection.step_ref import name_model
from engine.inspection.typed_probability import TypedProbability, compute_typed_probability
from engine.inspection.typed_token import ids_before, read_typed_token
from engine.inspection.why import explain_token
from engine.models.loading import LoadedModel
from engine.one_shot_thread import run_in_thread
from engine.trace.records import Trace

if TYPE_CHECKING:
    from engine.run.weights import RequestedModel


@dataclass(frozen=True)
class StepQuestion:
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


def answer_question(
    run: CachedRun | Trace,
    question: StepQuestion,
    model: LoadedModel | None = None,
    assistant: RequestedModel = None,
) -> tuple[Explanation, str]:
    """Explain why a step chose a token or did not.

    Args:
        run: a cached run, or a trace; steps after the one in question may be missing.
        question: see ``StepQuestion``.
        model: a LoadedModel that replaces the one the trace names.
        assistant: a LoadedModel that replaces the trace's draft model.

    Returns:
        The explanation, and a sentence on how its text was tokenized ("" for none).

    Raises:
        ParameterError: the step, token, node or position does not exist.
    """

    def explain() -> tuple[Explanation, str]:
        with name_model(run):
            place = find_replayed_step(run, question.step, model, assistant, quick=question.quick)
            return _explain_step(place, question)

    # OpenMP keeps workers for every thread that ever computed; idle ones slow small models down.
    return run_in_thread(explain)


def score_typed_text(
    run: CachedRun | Trace,
    step: int,
    text: str,
    model: LoadedModel | None = None,
    assistant: RequestedModel = None,
) -> TypedProbability:
    """Return the model's probability of a typed text at a step.

    Args:
        run: a cached run or a trace, as for ``answer_question``.
        step: index, from 0.
        text: 1 to 200 characters; see ``compute_typed_probability``.
        model: a LoadedModel that replaces the one the trace names.
        assistant: a LoadedModel that replaces the trace's draft model.

    Raises:
        ParameterError: the step does not exist, or nothing is known about the text.
    """

    def score() -> TypedProbability:
        with name_model(run):
            place = find_replayed_step(run, step, model, assistant)
            return compute_typed_probability(place, text)

    return run_in_thread(score)


def _explain_step(place: ReplayedStep, question: StepQuestion) -> tuple[Explanation, str]:
    token, note = question.token_id, ""
    if question.text is not None:
        token, note = read_typed_token(place, question.text, ids_before(place, question.at))
    return explain_token(place, token, node_id=question.node_id, at=question.at), note
