"""The Draws tab: samples one prompt with many seeds and counts how often each prefix occurs."""

from __future__ import annotations

import dataclasses
import json
import threading
import uuid
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any

import gradio as gr

from engine.analysis.many_draws import MAX_DRAWS, MAX_TOKENS, Batch, draw_many
from engine.declare.params import Integer, defaults_of, params_of
from engine.run.jobs import Task, Work
from engine.run.request import DecodeRequest
from engine.run.scheduler import Tell
from engine.settings import SETTINGS
from engine.statistics.prefix_tree import Draw
from engine.strategies.base import STORY
from engine.strategies.sampling import STRATEGY
from engine.trace.events import Failed
from playground.forms import controls
from playground.forms.form import form_request
from playground.forms.spec import one_models_weights, param_spec
from playground.jobs.background_jobs import ENDED, outliving
from playground.jobs.progress import STARTING, beat_s, last_told
from playground.jobs.zerogpu import in_line, on_gpu
from playground.shell.elements import OF_A_PRESS, OF_THE_PAGE, drawn, sent_with
from playground.shell.guard import guarded, sentence
from playground.shell.scripts import receiving
from visualizers.prefix_tree.summary import view

_KEPT = 64
_OFFERED = ("max_new_tokens", "temperature", "top_k", "top_p")
"""The sampling parameters in the tab's form."""
_SHORT = {"maximum": MAX_TOKENS, "slider_maximum": None}
_TOKENS = 6
"""Default number of new tokens: the tree of longer texts has a branch for nearly every draw."""
_COUNT = Integer(
    label="Draws", help="More draws come closer to the probabilities.", minimum=2, maximum=MAX_DRAWS
)
_FIRST_COUNT = 128
_DRAWING = {"phase": "decoding", "says": ""}
_RUNNING: dict[str, threading.Event] = {}


def build_draws(queue: str) -> None:
    """Build the tab; ``queue`` is the Gradio concurrency id that all runs share."""
    with gr.Tab("Draws", id="draws", elem_id="tab-draws"):
        page = drawn("page-draws", receiving("p.draws(element.querySelector('.dp-tab'), trigger)"))
    page.input(on_gpu(outliving(draw, _unknown)), None, page, **in_line(queue), **OF_A_PRESS)
    page.stop(guarded(_stop), None, None, concurrency_limit=None, **OF_THE_PAGE)


def declaration() -> dict[str, Any]:
    """Return the tab's form as JSON values: prompt and controls."""
    kinds, defaults = params_of(STRATEGY.config), defaults_of(STRATEGY.config)
    kinds["max_new_tokens"] = dataclasses.replace(kinds["max_new_tokens"], **_SHORT)
    defaults["max_new_tokens"] = _TOKENS
    held = one_models_weights()
    return {
        "prompt": STORY,
        "only": held["only"],
        "params": [
            param_spec("draws", _COUNT, _FIRST_COUNT),
            *(param_spec(name, kinds[name], defaults[name]) for name in _OFFERED),
            *held["params"],
        ],
    }


def _unknown(asked: dict[str, Any]) -> str:
    del asked
    return json.dumps({"kind": "failed", "id": "", "error": ENDED})


def _stop(event: gr.EventData) -> None:
    cancel(sent_with(event).get("id"))


def cancel(run_id: Any) -> None:
    """Stop a run within one step; unknown ids are ignored."""
    event = _RUNNING.get(run_id) if isinstance(run_id, str) else None
    if event is not None:
        event.set()


def draw(asked: Any) -> Generator[str, None, None]:
    """Sample in batches and yield messages for the page as JSON; never raises.

    Args:
        asked: what the page sent: ``prompt`` or ``messages`` with ``template``, ``model``,
            ``draws``, ``seed`` and ``params`` of sampling.

    Yields:
        Messages of kind ``running`` or ``progress``; the last is ``done``, ``stopped`` or
        ``failed``.
    """
    run_id, cancelled = uuid.uuid4().hex, threading.Event()
    _RUNNING[run_id] = cancelled
    while len(_RUNNING) > _KEPT:
        _RUNNING.pop(next(iter(_RUNNING)))
    draws: list[Draw] = []
    pieces: dict[int, str] = {}
    try:
        form = asked if isinstance(asked, dict) else {}
        request = form_request({**form, "strategy": STRATEGY.name})
        count = controls.whole(form.get("draws"))
        state: dict[str, Any] = {"id": run_id, "wanted": count}
        yield _message("running", state, view(draws, pieces))
        for batch, news in _drawn(request, count, cancelled):
            if batch is None:
                yield json.dumps({"kind": "progress", **state, **news})
                continue
            draws += batch.draws
            pieces |= batch.pieces
            state["seconds"] = batch.elapsed_s
            yield _message("running", state, view(draws, pieces))
        status = "stopped" if cancelled.is_set() and len(draws) < count else "done"
        yield _message(status, state, view(draws, pieces))
    # The page is gone: stop drawing.
    except GeneratorExit:
        cancelled.set()
        raise
    # A panic of the tokenizer library is no Exception, see ``guard``.
    except BaseException as error:
        failed = {"kind": "failed", "id": run_id, "error": sentence(error)}
        yield json.dumps(failed, allow_nan=False)
    finally:
        _RUNNING.pop(run_id, None)


def _drawn(
    request: DecodeRequest, count: Any, cancelled: threading.Event
) -> Iterator[tuple[Batch | None, dict[str, str]]]:
    """Yield each batch of draws, or None, with the newest progress message."""

    def do(send: Tell, left: threading.Event) -> None:
        del left  # ``draw`` sets ``cancelled`` when its reader goes away.
        for batch in draw_many(request, count, cancelled, send):
            send(batch)

    with closing(Work(lambda send, left: Task(do, send, left))) as work:
        last = STARTING
        for events in work.batches(1 / SETTINGS.updates_per_s, beat_s()):
            for event in events:
                if isinstance(event, Failed):
                    raise event.error
                if isinstance(event, Batch):
                    last = _DRAWING
                    yield event, last
            last = last_told(events) or last
            if not events or not isinstance(events[-1], Batch):
                yield None, last


def _message(kind: str, state: dict[str, Any], seen: dict[str, Any]) -> str:
    return json.dumps({"kind": kind, **state, **seen}, default=str, separators=(",", ":"))
