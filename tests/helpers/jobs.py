"""Jobs that a test begins itself, without a page."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from engine import DecodeRequest
from playground.jobs.registry import JOBS, JobKind, PageJob
from playground.runs.stream import stream_run


def begin(kind: JobKind, asked: Mapping[str, Any]) -> PageJob:
    """Begin a job of a kind."""
    return JOBS.start(kind, uuid.uuid4().hex, asked)


def begin_run(request: DecodeRequest, **more: Any) -> PageJob:
    """Begin a job of one run."""
    return begin(JobKind("test", lambda job, asked: stream_run(job, request, **more)), {})


def read(kind: JobKind, asked: Mapping[str, Any]) -> Iterator[Any]:
    """Begin a job and yield its messages."""
    return begin(kind, asked).read()


def read_run(request: DecodeRequest, **more: Any) -> Iterator[str]:
    """Begin a run and yield its messages."""
    return begin_run(request, **more).read()


def named_rows(figures: Mapping[str, Any], place: int = 0) -> list[dict[str, Any]]:
    """Return the table of a comparison for the seed at a place: per run its figures by name."""
    rows = figures["seeds"][place]["rows"]
    return [dict(zip(figures["columns"], row, strict=True)) for row in rows]
