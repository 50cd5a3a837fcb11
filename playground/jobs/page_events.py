"""Connects the page's elements to jobs: a press of Run begins or resumes one, and reads it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr

from playground.jobs.registry import JOBS, JobKind, TabMessage
from playground.jobs.zerogpu import on_gpu, queue_options
from playground.shell.elements import PRESS_EVENT, event_data
from playground.shell.visitors import current_session, set_current_visitor
from playground.storage.run_store import RunMessage

RUN_QUEUE_ID = "model"
"""The Gradio concurrency id that all work with models shares."""


def connect_jobs(kind: JobKind, element: Any, *, bus: Any = None, tab: bool = True) -> None:
    """Let the ``input`` event of an element begin and resume jobs.

    Args:
        kind: their declaration.
        element: the element whose script asks.
        bus: the hidden element that carries messages of runs, if the jobs have runs.
        tab: whether the element takes messages itself.
    """
    outputs = [*([] if bus is None else [bus]), *([element] if tab else [])]
    kinds = [*([] if bus is None else [str]), *([dict] if tab else [])]
    element.input(
        on_gpu(_make_handler(kind, kinds)),
        None,
        outputs,
        **queue_options(RUN_QUEUE_ID),
        **PRESS_EVENT,
    )


def _make_handler(kind: JobKind, kinds: list[type]) -> Callable[[gr.EventData], Iterator[Any]]:
    def handler(event: gr.EventData) -> Iterator[Any]:
        set_current_visitor()
        for message in _read_job(kind, event_data(event)):
            if isinstance(message, tuple(kinds)):
                # Plain texts: on ZeroGPU they go to another process.
                text = message.text if isinstance(message, TabMessage) else str(message)
                sent = [text if isinstance(message, one) else gr.skip() for one in kinds]
                yield sent[0] if len(sent) == 1 else tuple(sent)

    return handler


def _read_job(kind: JobKind, payload: dict[str, Any]) -> Iterator[Any]:
    """Yield the messages that the page lacks."""
    job_id = str(payload.get("press") or uuid.uuid4().hex)[:64]
    if payload.get("resume") is not True:
        yield from JOBS.start(kind, job_id, payload).read(current_session())
        return
    job = JOBS.find(job_id)
    if job is None:
        work = kind.take_over(payload)
        if work is None:
            unknown = kind.unknown(payload)
            own = isinstance(unknown, dict)
            yield TabMessage({**unknown, **kind.about(payload)}) if own else unknown
            return
        job = JOBS.start(kind, job_id, payload, work)
    for message in job.read(current_session()):
        if not _has_received(payload, message):
            yield message


def _has_received(payload: dict[str, Any], message: Any) -> bool:
    """Return True for a message of the page's run with seq < ``payload["next"]``."""
    following = payload.get("next")
    if not isinstance(message, RunMessage) or type(following) is not int:
        return False
    return message.run == payload.get("run") and message.seq < following
