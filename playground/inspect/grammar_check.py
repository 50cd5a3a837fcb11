"""The check of ``structured_outputs`` while it is typed: its line and reason, or how a text may begin."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from engine.declare.structured_outputs import MOST_CHARACTERS, StructuredOutputs
from engine.errors import ParameterError
from engine.grammar.compile import make_byte_matcher, next_bytes
from engine.grammar.microscope import name_bytes
from engine.messages import Message
from engine.models.structured_outputs import NAME, compile_structured_outputs
from playground.jobs.registry import JOBS, OTHERS_ASK_MESSAGE, QUESTION_WAIT_S, JobKind

ACTIONS = ("grammar",)
_PARAM = StructuredOutputs(label=NAME, help="")
# One slot: of the two processes that compile grammars, the other one stays free for runs.
_KIND = JobKind(
    "grammar", slots=1, wait_s=QUESTION_WAIT_S, busy=OTHERS_ASK_MESSAGE, latest_only=True
)


def act(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is wrong with a grammar, or how a text that matches it may begin.

    Args:
        asked: ``text``, the parameter as JSON text, and ``press``, the id of the field: its newer
            question replaces its earlier one.

    Returns:
        ``begins``, in words. Or ``refused``, a sentence that names the reason and, where it is
        known, the line.
    """
    text = asked.get("text")
    if not isinstance(text, str) or len(text) > 2 * MOST_CHARACTERS:
        most = Message("a text of at most {most} characters", most=2 * MOST_CHARACTERS)
        raise ParameterError("text", None, most)
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        refused = Message("Line {line}: it is not valid JSON.", line=error.lineno)
        return {"refused": refused}
    except RecursionError:
        pass  # refused by the check below
    with JOBS.run(_KIND, asked.get("press")):
        try:
            spec = _PARAM.check(NAME, text)
            matcher = make_byte_matcher(compile_structured_outputs(spec))
        except ParameterError as error:
            return {"refused": Message("A run would be refused: {why}.", why=error.allowed)}
        return {"begins": name_bytes(next_bytes(matcher), bool(matcher.is_accepting()))}
