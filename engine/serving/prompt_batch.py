"""Decodes a list of prompts with the same settings, several at a time, with a record for each prompt."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextvars import copy_context

from engine.errors import Cancelled, ParameterError
from engine.messages import Message
from engine.run.decoding import trace_of
from engine.run.jobs import JobStream
from engine.run.request import DecodeRequest, check_request
from engine.serving import decode
from engine.settings import SETTINGS
from engine.trace.records import Trace

MAX_PROMPTS = 20
_POLL_S = 0.25
"""Seconds between questions whether the caller still waits."""


def check_prompt_count(prompts: Sequence[object]) -> None:
    """Check that a list has from 1 to ``MAX_PROMPTS`` prompts.

    Raises:
        ParameterError: it has fewer or more.
    """
    if not 1 <= len(prompts) <= MAX_PROMPTS:
        count = Message("{n} prompts", n=len(prompts))
        allowed = Message("it must be a list of 1 to {most}", most=MAX_PROMPTS)
        raise ParameterError("prompt", count, allowed)


class _Runs:
    """Runs in several threads that stop together."""

    def __init__(self) -> None:
        self.begun: list[JobStream] = []
        self.stopped = False

    def decode(self, request: DecodeRequest) -> Trace:
        """Return the record of a run.

        Raises:
            Cancelled: the runs were stopped.
            EngineError: it failed.
        """
        if self.stopped:
            raise Cancelled
        run = decode(request)
        self.begun.append(run)
        # ``stop`` does not know a run that was beginning.
        if self.stopped:
            run.cancel()
        last = None
        for event in run:
            last = event
        return trace_of(last)

    def stop(self) -> None:
        """Stop all runs; none begins any more."""
        self.stopped = True
        for run in self.begun:
            run.cancel()


def decode_prompts(
    request: DecodeRequest,
    prompts: Sequence[str],
    is_stopped: Callable[[], bool] = lambda: False,
) -> list[Trace]:
    """Return the run of each prompt, in order. Each writes what it writes alone.

    Runs that decode at the same time share forward passes where the strategy and the model allow it.

    Args:
        request: all but the prompt; the seed is that of every run.
        prompts: the texts to continue, at most ``MAX_PROMPTS``.
        is_stopped: asked again and again; True stops all runs.

    Raises:
        Cancelled: ``is_stopped`` said so.
        EngineError: a prompt is not valid, so that no run began, or a run failed, which stops the others.
    """
    check_prompt_count(prompts)
    requests = [dataclasses.replace(request, prompt=prompt) for prompt in prompts]
    for one in requests:
        check_request(one)
    runs = _Runs()
    # As many as may share passes; a thread keeps the visitor whose runs they are.
    with ThreadPoolExecutor(max(1, SETTINGS.max_shared_runs)) as pool:
        waiting = [pool.submit(copy_context().run, runs.decode, one) for one in requests]
        try:
            while True:
                done, pending = wait(waiting, _POLL_S, FIRST_EXCEPTION)
                if is_stopped():
                    raise Cancelled
                for future in done:
                    future.result()  # raises the error of a run that failed
                if not pending:
                    return [future.result() for future in waiting]
        finally:
            runs.stop()
