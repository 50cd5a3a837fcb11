"""The blind taste test: two texts for one prompt, without showing which strategy wrote which."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import gradio as gr

from engine.analysis.taste import MeasuredText, measure_continuation
from engine.errors import ParameterError, StoppedError
from engine.messages import Message
from engine.models.weights import weights_from_info
from engine.one_shot_thread import run_in_thread
from engine.run.preparation import ModelLoader
from engine.run.request import DecodeRequest
from engine.sources.source import Source
from engine.strategies.base import STORY
from engine.trace.records import Trace
from playground.forms.form import column_request
from playground.jobs.page_events import connect_jobs
from playground.jobs.progress import with_progress
from playground.jobs.registry import JobKind, PageJob
from playground.runs.run_text import stream_text
from playground.shell.elements import add_scripted_element
from playground.shell.scripts import on_message

_TEXT_COUNT = 2


def build_taste() -> None:
    """Build the Taste tab."""
    with gr.Tab("Taste", id="taste", elem_id="tab-taste"):
        page = add_scripted_element(
            "page-taste", on_message("p.taste(element.querySelector('.dp-tab'), trigger)")
        )
    connect_jobs(TASTE, page)


def declaration() -> dict[str, Any]:
    """Return the tab's initial values as JSON values."""
    return {"prompt": STORY}


def decode_pair(job: PageJob, payload: Any) -> Iterator[dict[str, Any]]:
    """Decode one prompt with two strategies and measure both texts.

    Args:
        job: The job that does it.
        payload: What the page sent: prompt, seed and two ``columns``, each a strategy with its models
            and params.

    Yields:
        Progress messages, and at the end the ``pair``: its prompt and two ``texts``, in the order
        of the columns.

    Raises:
        EngineError: One sentence naming the problem.
    """
    requests = read_requests(payload)
    found: list[MeasuredText] = []
    for number, request in enumerate(requests, 1):
        trace = yield from _decode_with_progress(job, request, number)
        found.append((yield from with_progress(job, partial(_measure_text, request, trace))))
    pair = {"prompt": requests[0].prompt, "texts": [asdict(one) for one in found]}
    yield {"kind": "pair", "pair": pair}


TASTE = JobKind("taste", decode_pair)


def _decode_with_progress(
    job: PageJob, request: DecodeRequest, number: int
) -> Generator[dict[str, Any], None, Trace]:
    """Decode a request with progress only: no text is shown before both are complete."""
    for news in stream_text(job, request):
        if isinstance(news, Trace):
            if news.outputs[0].finish_reason == "cancelled":
                break
            return news
        if isinstance(news, dict):
            says = Message(
                "Text {number} of {sides}: {says}",
                number=number,
                sides=_TEXT_COUNT,
                says=news["says"],
            )
            yield {**news, "says": says}
    raise StoppedError("Stopped before both texts were written.")


def _measure_text(request: DecodeRequest, trace: Trace, tell: Any, stopped: Any) -> MeasuredText:
    source, weights = Source.parse(trace.model.id), weights_from_info(trace.model)
    base = ModelLoader(stopped, tell)(source, weights)
    return run_in_thread(partial(measure_continuation, trace, request.params, base, stopped, tell))


def read_requests(payload: Any) -> list[DecodeRequest]:
    """Return the two requests of what the page sent.

    Raises:
        ParameterError: A value of a column is not valid.
    """
    columns = payload.get("columns") if isinstance(payload, Mapping) else None
    if not isinstance(columns, list) or len(columns) != _TEXT_COUNT:
        count = len(columns) if isinstance(columns, list) else columns
        raise ParameterError("columns", count, "two strategies are compared")
    shared = {name: payload.get(name) for name in ("prompt", "seed")}
    return [column_request(column, shared) for column in columns]
