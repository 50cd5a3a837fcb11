"""The Draws tab: samples one prompt with many seeds and counts how often each prefix occurs."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from typing import Any

import gradio as gr

from engine.analysis.many_draws import MAX_DRAWS, MAX_TOKENS, draw_many
from engine.declare.params import Integer, defaults_of, params_of
from engine.run.scheduler import EventCallback
from engine.statistics.prefix_tree import DrawBatch, SampledText
from engine.strategies.base import STORY
from engine.strategies.sampling import STRATEGY
from playground.forms import controls
from playground.forms.form import run_request
from playground.forms.spec import param_spec, weights_controls
from playground.jobs.page_events import connect_jobs
from playground.jobs.progress import with_progress
from playground.jobs.registry import JobKind, PageJob
from playground.shell.elements import add_scripted_element
from playground.shell.scripts import on_message
from visualizers.prefix_tree.summary import prefix_tree_view

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


def build_draws() -> None:
    """Build the tab."""
    with gr.Tab("Draws", id="draws", elem_id="tab-draws"):
        page = add_scripted_element(
            "page-draws", on_message("p.draws(element.querySelector('.dp-tab'), trigger)")
        )
    connect_jobs(DRAWS, page)


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


def stream_draws(job: PageJob, payload: Any) -> Iterator[dict[str, Any]]:
    """Sample in batches.

    Args:
        job: the job that does it.
        payload: what the page sent: ``prompt`` or ``messages`` with ``template``, ``model``,
            ``draws``, ``seed`` and ``params`` of sampling.

    Yields:
        Messages of kind ``running`` or ``progress``; the last is ``done`` or ``stopped``.

    Raises:
        EngineError: A value is not valid, or nothing can be drawn.
    """
    request = run_request({**payload, "strategy": STRATEGY.name})
    count = controls.to_int(payload.get("draws"))
    draws: list[SampledText] = []
    pieces: dict[int, str] = {}
    state: dict[str, Any] = {"wanted": count}
    yield {"kind": "running", **_DRAWING_MESSAGE, **state, **prefix_tree_view(draws, pieces)}

    def draw(send: EventCallback, cancelled: threading.Event) -> None:
        for batch in draw_many(request, count, cancelled, send):
            send(batch)

    for news in with_progress(job, draw):
        if isinstance(news, DrawBatch):
            draws += news.draws
            pieces |= news.pieces
            state |= {"seconds": news.elapsed_s, "inexact": news.error}
            view = prefix_tree_view(draws, pieces)
            yield {"kind": "running", **_DRAWING_MESSAGE, **state, **view}
        else:
            yield {**news, **(_DRAWING_MESSAGE if draws else {})}
    status = "stopped" if job.cancelled.is_set() and len(draws) < count else "done"
    yield {"kind": status, **state, **prefix_tree_view(draws, pieces)}


DRAWS = JobKind("draws", stream_draws)
