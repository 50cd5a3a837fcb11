"""The many-draws tab: sampling for many seeds, and how often each beginning came."""

from __future__ import annotations

import dataclasses
import json
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import gradio as gr

from engine.after.many_draws import MAX_DRAWS, MAX_TOKENS, draw_many
from engine.declare.params import defaults_of, params_of
from engine.models.catalogue import CATALOGUE
from engine.reading.prefix_tree import Draw
from engine.run.request import DecodeRequest
from engine.strategies.base import STORY
from engine.strategies.sampling import STRATEGY
from playground import controls, raw
from playground.guard import guarded, sentence
from playground.scripts import receiving
from playground.zerogpu import on_gpu
from visualizers.prefix_tree.summary import view

_KEPT = 64
_OFFERED = {
    "max_new_tokens": "draws-new",
    "temperature": "draws-temperature",
    "top_k": "draws-k",
    "top_p": "draws-p",
}
"""The parameters of sampling that the tab offers, each with its element."""
_SHORT = {"maximum": MAX_TOKENS, "slider_maximum": None}
_TOKENS = 6
"""New tokens to begin with: the tree of a longer text has as many branches as draws."""
_RUNNING: dict[str, threading.Event] = {}


def build_draws(queue: str) -> None:
    """Build the tab; ``queue`` is the one that runs share."""
    with gr.Tab("Many draws", id="draws", elem_id="tab-draws"):
        gr.HTML(
            "<h2 class='dp-sr'>Many draws</h2>"
            "<p>Sample the same prompt with many seeds. The width of a branch is how often it was "
            "drawn; beside it stands the probability the model gave it, computed exactly. With "
            "more draws the two come closer.</p>",
            elem_classes="dp-about",
        )
        with gr.Row(equal_height=False, elem_classes="dp-columns"):
            with gr.Column(min_width=0, elem_classes="dp-ask"):
                prompt = raw.Textbox(STORY, label="Prompt", lines=3, elem_id="draws-prompt")
                with gr.Row():
                    run = gr.Button("Draw", variant="primary", elem_id="draws-run")
                    stop = gr.Button("Stop", elem_id="draws-stop")
                slot = gr.Textbox(visible=False)
            with gr.Column(min_width=0, elem_classes="dp-right"):
                tree = gr.HTML(
                    "",
                    html_template='<div class="dp-stage dp-draws"></div>',
                    elem_id="draws-tree",
                    js_on_load=receiving(
                        "p.prefixTree(element.querySelector('.dp-draws'))", at_once=True
                    ),
                    apply_default_css=False,
                )
            with gr.Column(min_width=0, elem_classes="dp-settings"):
                settings = _settings()
    options: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    run.click(
        on_gpu(draw),
        [prompt, *settings],
        tree,
        concurrency_id=queue,
        concurrency_limit=2,
        **options,
    )
    stop.click(
        guarded(cancel),
        slot,
        None,
        concurrency_limit=None,
        js="() => playground.then((p) => p.drawsId())",
        **options,
    )


def _settings() -> list[Any]:
    entries = [e for e in CATALOGUE.values() if e.role in ("target", "seq2seq") and e.available]
    return [
        raw.Dropdown(
            [(f"{e.title} · {e.parameters}", e.name) for e in entries],
            value="storyteller",
            label="Model",
            allow_custom_value=True,
            elem_id="draws-model",
        ),
        raw.Slider(2, MAX_DRAWS, value=128, step=1, label="Draws", elem_id="draws-count"),
        *(_control(name) for name in _OFFERED),
        raw.Number(
            0,
            label="First seed",
            info="The next draws take the seeds after it.",
            precision=0,
            elem_id="draws-seed",
        ),
    ]


def _control(name: str) -> Any:
    """Return the declared control of a parameter of sampling."""
    declared = params_of(STRATEGY.config)[name]
    default = defaults_of(STRATEGY.config)[name]
    if name == "max_new_tokens":
        declared, default = dataclasses.replace(declared, **_SHORT), _TOKENS
    return controls.widget(name, declared, default, _OFFERED[name])


def cancel(run_id: Any) -> None:
    """Stop a run within one step; unknown ids are ignored."""
    event = _RUNNING.get(run_id) if isinstance(run_id, str) else None
    if event is not None:
        event.set()


def draw(
    prompt: Any, model: Any, count: Any, tokens: Any, temperature: Any, k: Any, p: Any, seed: Any
) -> Iterator[str]:
    """Draw and yield messages for the page as JSON; never raises, the last says how it ended."""
    run_id, cancelled = uuid.uuid4().hex, threading.Event()
    _RUNNING[run_id] = cancelled
    while len(_RUNNING) > _KEPT:
        _RUNNING.pop(next(iter(_RUNNING)))
    params = {
        "max_new_tokens": controls.whole(tokens),
        "temperature": temperature,
        "top_k": controls.whole(k),
        "top_p": p,
    }
    count = controls.whole(count)
    draws: list[Draw] = []
    pieces: dict[int, str] = {}
    state: dict[str, Any] = {"id": run_id, "wanted": count, "prompt": prompt}
    try:
        yield _message("running", state, view(draws, pieces))
        request = DecodeRequest("sampling", model, prompt, params=params, seed=controls.whole(seed))
        for batch in draw_many(request, count, cancelled):
            draws += batch.draws
            pieces |= batch.pieces
            state["seconds"] = batch.elapsed_s
            yield _message("running", state, view(draws, pieces))
        status = "stopped" if cancelled.is_set() and len(draws) < count else "done"
        yield _message(status, state, view(draws, pieces))
    except GeneratorExit:
        cancelled.set()
        raise
    except BaseException as error:
        failed = {"kind": "failed", "id": run_id, "error": sentence(error)}
        yield json.dumps(failed, allow_nan=False)
    finally:
        _RUNNING.pop(run_id, None)


def _message(kind: str, state: dict[str, Any], seen: dict[str, Any]) -> str:
    return json.dumps({"kind": kind, **state, **seen}, default=str, separators=(",", ":"))
