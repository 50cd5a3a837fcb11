"""Validation of the conversation of a trace: messages, template arguments and turns."""

from __future__ import annotations

from engine.errors import TraceError
from engine.trace.records import ROLES, TURN_ROLES, Trace
from engine.trace.value_types import is_unicode, iter_leaves

_MAX_NUMBER = 2**64


def check_chat(trace: Trace) -> None:
    """Check the messages, and that the turns cover the prompt's tokens without gaps.

    Raises:
        TraceError: a field is invalid; the message names it.
    """
    if trace.literal_tokens < 0:
        raise TraceError("trace.literal_tokens is negative.")
    if trace.messages is None:
        if trace.template is not None or trace.prompt_turns:
            raise TraceError("trace.messages is missing, and what belongs to it is there.")
        return
    if trace.prompt is not None or trace.template is None or not trace.messages:
        raise TraceError("trace.messages takes the place of trace.prompt and has a template.")
    for number, message in enumerate(trace.messages):
        if message.get("role") not in ROLES:
            raise TraceError(
                "trace.messages[{n}].role must be one of {roles}.",
                n=number,
                roles=", ".join(ROLES),
            )
        if not isinstance(message.get("content"), str) and not message.get("tool_calls"):
            raise TraceError("trace.messages[{n}].content must be text.", n=number)
    for name in ("messages", "template"):
        if not all(_is_valid_leaf(leaf) for leaf in iter_leaves(getattr(trace, name))):
            raise TraceError("trace.{name} has half of a character or no finite number.", name=name)
    _check_turns(trace)


def _check_turns(trace: Trace) -> None:
    at = 0
    for number, turn in enumerate(trace.prompt_turns):
        if turn.role not in TURN_ROLES:
            raise TraceError(
                "trace.prompt_turns[{n}].role must be one of {roles}.",
                n=number,
                roles=", ".join(TURN_ROLES),
            )
        if turn.start != at or turn.end <= at:
            raise TraceError(
                "trace.prompt_turns[{n}] does not begin where the last one ends.", n=number
            )
        at = turn.end
    if at != len(trace.prompt_ids):
        raise TraceError("trace.prompt_turns do not end with the prompt.")


def _is_valid_leaf(leaf: object) -> bool:
    if isinstance(leaf, str):
        return is_unicode(leaf)
    if isinstance(leaf, (int, float)):
        return abs(leaf) <= _MAX_NUMBER
    return leaf is None
