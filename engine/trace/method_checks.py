"""Validation of the custom generation method of a trace, and of the emitted tokens' statistics."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from engine.errors import TraceError
from engine.trace.records import METHOD_SOURCES, EmittedToken, MethodInfo, Trace

_TOLERANCE = 1e-3
_SHA256 = re.compile("[0-9a-f]{64}")
_MAX_NAME = 500


def check_method(trace: Trace) -> None:
    """Check the method of a run and the statistics of its emitted tokens.

    Raises:
        TraceError: a field is invalid; the message names it.
    """
    if trace.method is not None:
        _check_info(trace.method)
    if trace.emitted and len(trace.emitted) != len(trace.outputs):
        raise TraceError(
            "trace.emitted lists {n} texts, and there are {outputs}.",
            n=len(trace.emitted),
            outputs=len(trace.outputs),
        )
    for number, (tokens, output) in enumerate(zip(trace.emitted, trace.outputs, strict=False)):
        if len(tokens) != len(output.token_ids):
            raise TraceError(
                "trace.emitted[{n}] lists {told} tokens of {total}.",
                n=number,
                told=len(tokens),
                total=len(output.token_ids),
            )
        for at, token in enumerate(tokens):
            _check_token(f"trace.emitted[{number}][{at}]", token, trace.pieces)


def _check_info(method: MethodInfo) -> None:
    if method.source not in METHOD_SOURCES:
        raise TraceError(
            "trace.method.source must be one of {sources}.", sources=", ".join(METHOD_SOURCES)
        )
    if method.sha256 is not None and not _SHA256.fullmatch(method.sha256):
        raise TraceError("trace.method.sha256 is no SHA-256.")
    if not 1 <= len(method.name) <= _MAX_NAME:
        raise TraceError("trace.method.name must have 1 to {most} characters.", most=_MAX_NAME)


def _check_token(where: str, token: EmittedToken, pieces: Mapping[int, str]) -> None:
    if token.logprob > _TOLERANCE or token.rank < 0 or token.entropy < -_TOLERANCE:
        raise TraceError("{where} has impossible numbers.", where=where)
    if any(token_id not in pieces for token_id, _ in token.top):
        raise TraceError("{where} names a token that has no entry in pieces.", where=where)
    shares = [share for _, share in token.top]
    if math.fsum(shares) > 1 + _TOLERANCE or any(
        not 0 <= share <= 1 + _TOLERANCE for share in shares
    ):
        raise TraceError("{where} has probabilities that are none.", where=where)
