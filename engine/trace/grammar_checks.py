"""Validation of the record of a trace's texts under their grammar."""

from __future__ import annotations

import math

from engine.errors import TraceError
from engine.trace.records import GrammarText, GrammarToken, Trace

_TOLERANCE = 1e-3


def check_grammar(trace: Trace) -> None:
    """Check that every text under its grammar is one of the outputs, with possible numbers.

    Raises:
        TraceError: a field is invalid; the message names it.
    """
    if trace.grammar and len(trace.grammar) != len(trace.outputs):
        raise TraceError(
            "trace.grammar lists {n} texts, and there are {outputs}.",
            n=len(trace.grammar),
            outputs=len(trace.outputs),
        )
    for number, (text, output) in enumerate(zip(trace.grammar, trace.outputs, strict=False)):
        where = f"trace.grammar[{number}]"
        if len(text.tokens) != len(output.token_ids):
            raise TraceError(
                "{where} lists {n} tokens of {total}.",
                where=where,
                n=len(text.tokens),
                total=len(output.token_ids),
            )
        if not _is_possible(text) or not all(map(_is_possible_token, text.tokens)):
            raise TraceError("{where} has impossible numbers.", where=where)
        wanted = (token.wanted for token in text.tokens)
        if any(token_id is not None and token_id not in trace.pieces for token_id in wanted):
            raise TraceError("{where} names a token that has no entry in pieces.", where=where)


def _is_possible(text: GrammarText) -> bool:
    places = range(len(text.tokens))
    return (
        text.known == sum(token.allowed is not None for token in text.tokens)
        and math.isfinite(text.log_allowed)
        and text.log_allowed <= _TOLERANCE
        and (text.hardest in places if text.known else text.hardest is None)
    )


def _is_possible_token(token: GrammarToken) -> bool:
    return all(
        share is None or 0 <= share <= 1 + _TOLERANCE for share in (token.allowed, token.wanted_p)
    )
