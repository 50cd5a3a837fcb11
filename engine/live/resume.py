"""Continues a run of a server from a step, by token ids: no text is ever tokenized again."""

from __future__ import annotations

from collections.abc import Iterable

from engine.errors import EngineError, ParameterError
from engine.trace.records import Parent, Trace, check_step_index
from engine.trace.served import ServedDetail, is_invented_id


def branch_ids(trace: Trace, step: object, token_id: object) -> tuple[tuple[int, ...], Parent]:
    """Return the prompt ids of a branch of a server's run, and the reference to the run.

    Args:
        trace: the run.
        step: index of the step to decide again, from 0.
        token_id: the token to use there.

    Raises:
        ParameterError: there is no such step, or the token is none.
        EngineError: the run lacks the ids of its prompt or of its text.
    """
    index = check_step_index(trace.steps, step)
    if not isinstance(token_id, int) or isinstance(token_id, bool) or token_id < 0:
        raise ParameterError(
            "token", token_id, "it must be a token id; a text would need a tokenizer"
        )
    kept = tuple(one.emit[0] for one in trace.steps_of(0) if one.index < index)
    merged = any(
        isinstance(one.detail, ServedDetail) and one.detail.merged for one in trace.steps[:index]
    )
    if trace.steps[index].sequence > 0:
        raise ParameterError(
            "step", index, "only the first text of a server's run can be continued"
        )
    check_known_ids(trace.prompt_ids, (*kept, token_id), merged=merged)
    earlier = 0 if trace.parent is None else trace.parent.written
    parent = Parent("", index, len(kept), (token_id,), earlier=earlier)
    return (*trace.prompt_ids, *kept, token_id), parent


def check_known_ids(prompt_ids: Iterable[int], ids: Iterable[int], *, merged: bool) -> None:
    """Check that all tokens that a branch continues are known by their ids.

    Args:
        prompt_ids: the run's prompt; empty if the server did not say it.
        ids: its kept tokens, and the new one.
        merged: whether the server joined some of them, as those of one character.

    Raises:
        EngineError: some are not known.
    """
    prompt = list(prompt_ids)
    if not prompt or merged or any(map(is_invented_id, (*prompt, *ids))):
        raise EngineError(
            "This run lacks the ids of its prompt or of its text, so it cannot be continued: "
            "tokenizing the text again could give other tokens."
        )
