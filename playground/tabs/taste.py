"""The blind taste test: two texts for one prompt, without showing which strategy wrote which."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import gradio as gr

from engine.analysis.taste import TastedText, continuation_of
from engine.errors import ParameterError, StoppedError
from engine.models.weights import weights_of
from engine.one_shot_thread import aside
from engine.run.preparation import Models
from engine.run.request import DecodeRequest, check
from engine.strategies.base import STORY
from engine.trace.records import Trace
from playground.forms.form import check_here, form_request
from playground.jobs.background_jobs import ENDED, outliving
from playground.jobs.progress import aloud
from playground.jobs.zerogpu import in_line, on_gpu
from playground.runs.run_text import written
from playground.shell.elements import OF_A_PRESS, OF_THE_PAGE, drawn, sent_with
from playground.shell.guard import guarded, sentence
from playground.shell.scripts import receiving
from playground.storage.journal import JOURNAL

_SIDES = 2


def build_taste(queue: str) -> None:
    """Build the Taste tab; ``queue`` is the queue id that all runs share."""
    with gr.Tab("Taste", id="taste", elem_id="tab-taste"):
        page = drawn("page-taste", receiving("p.taste(element.querySelector('.dp-tab'), trigger)"))
    page.input(on_gpu(outliving(_write, _unknown)), None, page, **in_line(queue), **OF_A_PRESS)
    page.stop(guarded(_stop), None, None, concurrency_limit=None, **OF_THE_PAGE)


def declaration() -> dict[str, Any]:
    """Return the tab's initial values as JSON values."""
    return {"prompt": STORY}


def _unknown(asked: dict[str, Any]) -> str:
    del asked
    return json.dumps({"failed": ENDED})


def _stop(event: gr.EventData) -> None:
    JOURNAL.cancel(str(sent_with(event).get("id", ""))[:64])


def _write(asked: dict[str, Any]) -> Generator[str, None, None]:
    try:
        for message in write_both(asked):
            yield json.dumps(message, allow_nan=False)
    except GeneratorExit:
        raise
    except BaseException as error:
        stopped = {"stopped": True} if isinstance(error, StoppedError) else {}
        yield json.dumps({"failed": sentence(error), **stopped})


def write_both(asked: Any) -> Iterator[dict[str, Any]]:
    """Decode one prompt with two strategies and measure both texts.

    Args:
        asked: What the page sent: prompt, seed and two ``columns``, each a strategy with its models
            and params.

    Yields:
        Progress messages, ``phase`` and ``says`` with the ``id`` for Stop. At the end the ``pair``:
        its prompt and two ``texts``, in the order of the columns.

    Raises:
        EngineError: One sentence naming the problem.
    """
    requests = requests_of(asked)
    found: list[TastedText] = []
    for number, request in enumerate(requests, 1):
        trace = yield from _traced(request, number)
        task = partial(_measured, request, trace)
        news = aloud(task)
        while True:
            try:
                yield {"id": "", **next(news)}
            except StopIteration as done:
                found.append(done.value)
                break
    yield {"pair": {"prompt": requests[0].prompt, "texts": [asdict(one) for one in found]}}


def _traced(request: DecodeRequest, number: int) -> Generator[dict[str, Any], None, Trace]:
    """Decode a request with progress only: no text is shown before both are complete."""
    for news in written(request):
        if isinstance(news, Trace):
            if news.outputs[0].finish_reason == "cancelled":
                raise StoppedError("Stopped before both texts were written.")
            return news
        if isinstance(news, dict):
            says = f"Text {number} of {_SIDES}: {news['says']}"
            yield {**news, "says": says}
    raise StoppedError("Stopped before both texts were written.")


def _measured(request: DecodeRequest, trace: Trace, tell: Any, stopped: Any) -> TastedText:
    base = Models(stopped, tell)(trace.model.id, weights=weights_of(trace.model))
    return aside(partial(continuation_of, trace, request.params, base, stopped, tell))


def requests_of(asked: Any) -> list[DecodeRequest]:
    """Return the two requests of what the page sent.

    Raises:
        ParameterError: A value of a column is not valid.
    """
    columns = asked.get("columns") if isinstance(asked, Mapping) else None
    if not isinstance(columns, list) or len(columns) != _SIDES:
        count = len(columns) if isinstance(columns, list) else columns
        raise ParameterError("columns", count, "two strategies are compared")
    shared = {name: asked.get(name) for name in ("prompt", "seed")}
    return [_request(column, shared) for column in columns]


def _request(column: Any, shared: dict[str, Any]) -> DecodeRequest:
    if not isinstance(column, Mapping):
        raise ParameterError("columns", column, "each must be an object")
    request = check_here(form_request({**column, **shared}))
    check(request)
    return request
