"""Validation of runs that a server decoded: what is unknown, and bounds that can hold."""

from __future__ import annotations

import math

from engine.errors import EngineError, TraceError
from engine.messages import Message
from engine.trace.records import Step, Trace
from engine.trace.served import (
    CHOICES,
    DISTRIBUTIONS,
    SERVED_STRATEGY,
    SERVERS,
    ServedDetail,
    ServedInfo,
)

_TOLERANCE = 1e-3


def check_served(trace: Trace) -> None:
    """Check that a served run is marked as one throughout, and that its bounds agree with its steps.

    Raises:
        TraceError: a check fails; the message names the step or field.
    """
    served = trace.served
    if (served is not None) != (trace.strategy == SERVED_STRATEGY):
        raise TraceError(
            "trace.served and the strategy {name} belong together.", name=repr(SERVED_STRATEGY)
        )
    if served is not None:
        _check_info(served)
    for step in trace.steps:
        where, detail = Message("Step {step}", step=step.index), step.detail
        if isinstance(detail, ServedDetail) != (served is not None):
            raise TraceError(
                "{where} is that of a server, and the run is not, or the other way round.",
                where=where,
            )
        if isinstance(detail, ServedDetail):
            _check_detail(where, step, detail)
        elif step.entropy is None or step.logsumexp is None:
            raise TraceError("{where} lacks its entropy or logsumexp.", where=where)


def require_local_run(trace: Trace) -> None:
    """Refuse a run whose model is on a server.

    Raises:
        EngineError: a server decoded the run, or computed its model.
    """
    if trace.model.host:
        raise EngineError(
            "The model of this run is on the server {host}. This needs a model on this machine.",
            host=trace.model.host,
        )
    require_whole_record(trace)


def require_whole_record(trace: Trace) -> None:
    """Refuse a run that a server decoded, whose distributions are known in part.

    Raises:
        EngineError: a server decoded the run.
    """
    if trace.served is not None:
        raise EngineError(
            "A server decoded this run. This needs its model, or the whole distribution of every "
            "step, and the server's answer has neither."
        )


def _check_info(served: ServedInfo) -> None:
    for name, value, known in (
        ("server", served.server, SERVERS),
        ("choice", served.choice, CHOICES),
    ):
        if value not in known:
            raise TraceError(
                "trace.served.{name} must be one of {known}.", name=name, known=", ".join(known)
            )
    if min(served.completion_tokens or 0, served.prompt_tokens or 0) < 0:
        raise TraceError("trace.served counts fewer than no tokens.")


def _check_detail(where: str, step: Step, detail: ServedDetail) -> None:
    if detail.distribution not in DISTRIBUTIONS:
        raise TraceError(
            "{where} has a distribution that is none of {known}.",
            where=where,
            known=", ".join(DISTRIBUTIONS),
        )
    # A server reports a few tokens, from which only bounds of the entropy follow.
    if step.entropy is not None or step.logsumexp is not None or step.stages:
        raise TraceError("{where} claims more than a server reports.", where=where)
    bounds = (
        (detail.unseen_low, detail.unseen_high),
        (detail.entropy_low, detail.entropy_high),
    )
    if not all(0 <= low <= high < math.inf for low, high in bounds):
        raise TraceError("{where} has bounds that cannot hold.", where=where)
    if not 0 <= detail.draw_error <= 1 or (detail.draw is None and detail.draw_error):
        raise TraceError("{where} has bounds that cannot hold.", where=where)
    seen = math.fsum(math.exp(c.raw_logprob) for c in step.candidates)
    if step.candidates and detail.unseen_low > 1 - seen + _TOLERANCE:
        raise TraceError(
            "{where} has candidates and unseen tokens of more than 1 together.", where=where
        )
