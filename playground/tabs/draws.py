"""The Draws tab: samples one prompt with many seeds and counts how often each prefix occurs."""

from __future__ import annotations

import dataclasses
import threading
import uuid
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any

import gradio as gr

from engine.analysis.many_draws import MAX_DRAWS, MAX_TOKENS, DrawBatch, draw_many
from engine.declare.params import Integer, defaults_of, params_of
from engine.messages import to_json
from engine.run.jobs import FunctionJob, JobStream
from engine.run.request import DecodeRequest
from engine.run.scheduler import EventCallback
from engine.settings import SETTINGS
from engine.statistics.prefix_tree import SampledText
from engine.strategies.base import STORY
from engine.strategies.sampling import STRATEGY
from engine.trace.events import Failed
from playground.forms import controls
from playground.forms.form import form_request
from playground.forms.spec import param_spec, weights_controls
from playground.jobs.background_jobs import ENDED_MESSAGE, resumable
from playground.jobs.progress import STARTING, heartbeat_interval_s, last_progress_message
from playground.jobs.zerogpu import on_gpu, queue_options
from playground.shell.elements import PAGE_EVENT, PRESS_EVENT, add_scripted_element, event_data
from playground.shell.guard import error_message, guard_handler
from playground.shell.scripts import on_message
from visualizers.prefix_tree.summary import prefix_tree_view

_MAX_RUNNING = 64
_TAB_PARAMS = ("max_new_tokens", "temperature", "top_k", "top_p")
"""The sampling parameters in the tab's form."""
_LENGTH_LIMITS = {"maximum": MAX_TOKENS, "slider_maximum": None}
_DEFAULT_TOKENS = 6
"""Default number of new tokens: the tree of longer texts has a branch for nearly every draw."""
_DRAWS_PARAM = Integer(
    label="Draws", help="More draws come closer to the probabilities.", minimum=2, maximum=MAX_DRAWS
)
_DEFAULT_DRAWS = 128
_DRAWING_MESSAGE = {"phase": "decoding", "says": ""}
_RUNNING: dict[str, threading.Event] = {}


def build_draws(queue: str) -> None:
    """Build the tab; ``queue`` is the Gradio concurrency id that all runs share."""
    with gr.Tab("Draws", id="draws", elem_id="tab-draws"):
        page = add_scripted_element(
            "page-draws", on_message("p.draws(element.querySelector('.dp-tab'), trigger)")
        )
    page.input(
        on_gpu(resumable(stream_draws, _ended_message)),
        None,
        page,
        **queue_options(queue),
        **PRESS_EVENT,
    )
    page.stop(guard_handler(_stop_draws), None, None, concurrency_limit=None, **PAGE_EVENT)


def declaration() -> dict[str, Any]:
    """Return the tab's form as JSON values: prompt and controls."""
    kinds, defaults = params_of(STRATEGY.config), defaults_of(STRATEGY.config)
    kinds["max_new_tokens"] = dataclasses.replace(kinds["max_new_tokens"], **_LENGTH_LIMITS)
    defaults["max_new_tokens"] = _DEFAULT_TOKENS
    held = weights_controls()
    return {
        "prompt": STORY,
        "only": held["only"],
        "params": [
            param_spec("draws", _DRAWS_PARAM, _DEFAULT_DRAWS),
            *(param_spec(name, kinds[name], defaults[name]) for name in _TAB_PARAMS),
            *held["params"],
        ],
    }


def _ended_message(asked: dict[str, Any]) -> str:
    del asked
    return to_json({"kind": "failed", "id": "", "error": ENDED_MESSAGE})


def _stop_draws(event: gr.EventData) -> None:
    cancel_draws(event_data(event).get("id"))


def cancel_draws(run_id: Any) -> None:
    """Stop a run within one step; unknown ids are ignored."""
    event = _RUNNING.get(run_id) if isinstance(run_id, str) else None
    if event is not None:
        event.set()


def stream_draws(asked: Any) -> Generator[str, None, None]:
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
    while len(_RUNNING) > _MAX_RUNNING:
        _RUNNING.pop(next(iter(_RUNNING)))
    draws: list[SampledText] = []
    pieces: dict[int, str] = {}
    try:
        form = asked if isinstance(asked, dict) else {}
        request = form_request({**form, "strategy": STRATEGY.name})
        count = controls.to_int(form.get("draws"))
        state: dict[str, Any] = {"id": run_id, "wanted": count}
        yield _tree_message("running", state, prefix_tree_view(draws, pieces))
        for batch, news in _stream_batches(request, count, cancelled):
            if batch is None:
                yield to_json({"kind": "progress", **state, **news})
                continue
            draws += batch.draws
            pieces |= batch.pieces
            state["seconds"] = batch.elapsed_s
            yield _tree_message("running", state, prefix_tree_view(draws, pieces))
        status = "stopped" if cancelled.is_set() and len(draws) < count else "done"
        yield _tree_message(status, state, prefix_tree_view(draws, pieces))
    # The page is gone: stop drawing.
    except GeneratorExit:
        cancelled.set()
        raise
    # A panic of the tokenizer library is no Exception, see ``guard``.
    except BaseException as error:
        failed = {"kind": "failed", "id": run_id, "error": error_message(error)}
        yield to_json(failed)
    finally:
        _RUNNING.pop(run_id, None)


def _stream_batches(
    request: DecodeRequest, count: Any, cancelled: threading.Event
) -> Iterator[tuple[DrawBatch | None, dict[str, str]]]:
    """Yield each batch of draws, or None, with the newest progress message."""

    def do(send: EventCallback, left: threading.Event) -> None:
        del left  # ``stream_draws`` sets ``cancelled`` when its reader goes away.
        for batch in draw_many(request, count, cancelled, send):
            send(batch)

    with closing(JobStream(lambda send, left: FunctionJob(do, send, left))) as work:
        last = STARTING
        for events in work.batches(1 / SETTINGS.updates_per_s, heartbeat_interval_s()):
            for event in events:
                if isinstance(event, Failed):
                    raise event.error
                if isinstance(event, DrawBatch):
                    last = _DRAWING_MESSAGE
                    yield event, last
            last = last_progress_message(events) or last
            if not events or not isinstance(events[-1], DrawBatch):
                yield None, last


def _tree_message(kind: str, state: dict[str, Any], seen: dict[str, Any]) -> str:
    return to_json({"kind": kind, **state, **seen})
