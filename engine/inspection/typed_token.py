"""Typed text as a token of a step: the first token it has at that position."""

from __future__ import annotations

from collections.abc import Sequence

from engine.declare.special_tokens import TEXT
from engine.errors import ParameterError
from engine.inspection.rerun import ReplayedStep
from engine.messages import Message
from engine.models.special_tokens import encode_word
from engine.models.text import decode_ids
from engine.number_text import quote_token
from engine.trace.details import BeamDetail
from engine.trace.records import Step, replay_ids

_MAX_CHARACTERS = 200


def read_typed_token(place: ReplayedStep, text: str, before: Sequence[int]) -> tuple[int, str]:
    """Return the first token of a text at a step's position, and a sentence if it has more.

    Args:
        place: the step.
        text: 1 to 200 characters.
        before: the ids before the text; unused if only the recording is available.

    Raises:
        ParameterError: the text has no tokens, or only recorded candidates are known and it is not
            one of them.
    """
    if not 1 <= len(text) <= _MAX_CHARACTERS:
        raise ParameterError(
            "text", text[:20], Message("write 1 to {limit} characters", limit=_MAX_CHARACTERS)
        )
    if place.run is None:
        return _find_recorded_candidate(place, text), ""
    tokenizer = place.target.tokenizer
    if tokenizer is None:
        raise ParameterError("text", text, "the model has no tokenizer: choose a candidate")
    # The same text can have other tokens after other text, so it is encoded in its context.
    ids = encode_word(tokenizer, text, decode_ids(tokenizer, before), TEXT)
    if not ids:
        raise ParameterError("text", text, "it has no tokens; write something")
    if len(ids) == 1:
        return ids[0], ""
    first = quote_token(place.piece(ids[0]))
    return ids[0], Message(
        "{text} takes {ids} tokens here; this is about the first, {first}.",
        text=quote_token(text),
        ids=len(ids),
        first=first,
    )


def _find_recorded_candidate(place: ReplayedStep, text: str) -> int:
    """Return the recorded candidate with this text, spaces aside."""
    for candidate in place.step.candidates:
        if place.piece(candidate.token_id).strip() == text.strip():
            return candidate.token_id
    raise ParameterError(
        "text",
        text,
        Message(
            "only recorded candidates are known of this step. {refused}", refused=place.refused
        ),
    )


def ids_before(place: ReplayedStep, at: int | None = None) -> Sequence[int]:
    """Return the ids before a token of a step, prompt included.

    Args:
        place: the step.
        at: index among the tokens the step wrote, from 0; None is the last.
    """
    step: Step = place.step
    start = [] if place.trace.model.is_encoder_decoder else list(place.trace.prompt_ids)
    if isinstance(step.detail, BeamDetail):
        return place.views[0].input_ids[0].tolist() if place.views else start
    same = tuple(s for s in place.trace.steps[: step.index] if s.sequence == step.sequence)
    where = len(step.emit) - 1 if at is None else at
    return [*start, *replay_ids(same)[: step.keep], *step.emit[:where]]
