"""The watermark bench: detection on any text, a wrong-key control, and the cost of the mark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

import gradio as gr

from engine.analysis.watermark_detection import build_watermark_config, detect_text
from engine.declare.groups import MAIN_GROUP
from engine.declare.params import Choice, defaults_of, params_of
from engine.errors import EngineError, StoppedError
from engine.messages import Message, to_json
from engine.models.loading import load
from engine.run.weights import read_single_weights
from engine.strategies.watermark import MAX_KEY, STRATEGY
from engine.trace.records import Trace
from playground.forms.form import form_params, form_request, form_weights
from playground.forms.spec import param_spec, weights_controls
from playground.i18n.message_html import message_html
from playground.jobs.page_events import connect_jobs
from playground.jobs.registry import JobKind, PageJob
from playground.runs.run_text import stream_text
from playground.shell.elements import (
    PAGE_EVENT,
    add_hidden_element,
    add_scripted_element,
    event_data,
)
from playground.shell.guard import error_message
from playground.shell.scripts import on_message
from playground.tabs.watermark_view import detection_html, pair_html, prompt_text

_FIRST_PRESET = STRATEGY.presets[0]
_MARK_PARAMS = (
    "scheme",
    "greenlist_ratio",
    "bias",
    "seeding_scheme",
    "context_width",
    "hashing_key",
    "ngram_len",
    "ignore_repeated_ngrams",
    "z_threshold",
)
"""Watermark parameters that the bench offers."""
_READING = "special_tokens"
_DEVICE_CHOICE = Choice(
    label="Device the text was generated on",
    help="CPU and GPU use different random lists, so this must match.",
    choices=("the model's own device", "cpu", "cuda", "mps"),
)
_CARD_TITLES = ("With the mark", "Without it, same seed")


def build_watermark_bench() -> None:
    """Build the Bench tab."""
    with gr.Tab("Bench", id="watermark_bench", elem_id="tab-watermark_bench"):
        page = add_scripted_element(
            "page-watermark_bench", on_message("p.bench(element.querySelector('.dp-tab'), trigger)")
        )
        judge = add_hidden_element("dp-judge-bus", on_message("p.judge(trigger)"))
    connect_jobs(BENCH, page)
    judge.input(
        _handle_judge, None, judge, concurrency_limit=None, trigger_mode="always_last", **PAGE_EVENT
    )


def declaration() -> dict[str, Any]:
    """Return the bench's form as JSON values: prompt and controls as in the first preset."""
    kinds = params_of(STRATEGY.config)
    first = {**defaults_of(STRATEGY.config), **_FIRST_PRESET.params}
    names = ("max_new_tokens", *_MARK_PARAMS)
    held = weights_controls()
    return {
        "only": held["only"],
        "prompt": _FIRST_PRESET.prompt,
        "params": [
            param_spec("device", _DEVICE_CHOICE, _DEVICE_CHOICE.choices[0]),
            *({**param_spec(n, kinds[n], first[n]), "group": MAIN_GROUP} for n in names),
            param_spec(_READING, kinds[_READING], None),
            *held["params"],
        ],
    }


def _handle_judge(event: gr.EventData) -> str:
    try:
        return to_json({"judged": judge_text(event_data(event))})
    except BaseException as error:
        return to_json({"failed": error_message(error)})


def decode_marked_and_plain(job: PageJob, form: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Decode one prompt with and without the watermark, from the same seed.

    Args:
        job: The job that does it.
        form: What the page sent: prompt or messages with their template, model, seed and params.

    Yields:
        ``progress``, with the texts so far as HTML in ``pair``. The last one, ``done``, also has
        the marked ``text`` and its verdict as HTML in ``judged``.

    Raises:
        EngineError: One sentence naming the problem.
    """
    params = form_params(STRATEGY, form.get("params") or {})
    shared = {n: v for n, v in params.items() if n in ("max_new_tokens", _READING)}
    mark = {n: v for n, v in params.items() if n in _MARK_PARAMS}
    weights = form_weights(STRATEGY, form.get("params") or {})
    traces: list[Trace] = []
    progress: dict[str, Any] = {}
    for strategy, given in (
        (STRATEGY.name, {**mark, **shared, **weights}),
        ("sampling", {**shared, **weights}),
    ):
        request = form_request({**form, "strategy": strategy, "params": given})
        for found in stream_text(job, request):
            if isinstance(found, Trace):
                traces.append(found)
            elif isinstance(found, str):
                prompt = prompt_text(request.prompt, request.messages)
                yield {**progress, "pair": _draft_html(prompt, traces, found)}
            else:
                progress = found
                yield progress
        if traces[-1].outputs[0].finish_reason == "cancelled":
            raise StoppedError("Stopped. The text written so far is below.")
    marked, plain = traces
    yield {"kind": "progress", "phase": "checking", "says": "Checking both texts for the mark…"}
    body = marked.outputs[0].text
    judged = judge_text(
        {
            **form,
            "prompt": None,
            "messages": None,
            "text": body,
            "params": {**mark, **shared, **weights},
        }
    )
    pair = pair_html(marked, plain, mark)
    yield {"kind": "done", "pair": pair, "text": body, "judged": judged}


BENCH = JobKind("watermark_bench", decode_marked_and_plain)


def _draft_html(prompt: str, traces: list[Trace], text: str) -> str:
    """Return both texts so far as HTML."""
    texts = [*(trace.outputs[0].text for trace in traces), text, ""][:2]
    writing = Message("Writing text {n} of 2 …", n=len(traces) + 1)
    cards = "".join(
        f"<div class='dp-card'><h3>{title}</h3><p class='wm-draft'>{escape(words)}</p></div>"
        for title, words in zip(_CARD_TITLES, texts, strict=True)
    )
    return (
        f"<p class='wm-prompt'><b>Prompt, never counted:</b> <span class='t'>{escape(prompt)}</span></p>"
        f"<div class='wm-pair'>{cards}</div><p class='dp-note wm-writing' role='status'>"
        f"{message_html(writing)}</p>"
    )


def judge_text(form: Mapping[str, Any]) -> str:
    """Return the verdict on a text as HTML, or the reason if it cannot be judged.

    An empty text has the verdict "".

    Args:
        form: The ``text``; the ``model`` whose tokenizer reads it; ``params``, the watermark to
            look for, the weights settings and the ``device`` type the text was generated on; the
            ``prompt``, absent if the text includes it.
    """
    body, prompt = form.get("text"), form.get("prompt")
    if body is None or (isinstance(body, str) and not body.strip()):
        return ""
    try:
        params = form_params(STRATEGY, form.get("params") or {})
        device = params.pop("device", None)
        # The random lists depend on the device type, so detection must use the same.
        where = {
            "prompt": prompt if isinstance(prompt, str) else None,
            "device": device if device != _DEVICE_CHOICE.choices[0] else None,
        }
        mark = {n: v for n, v in params.items() if n in (*_MARK_PARAMS, _READING)}
        weights = read_single_weights(
            form_weights(STRATEGY, form.get("params") or {}), STRATEGY.name
        )
        loaded = load(form.get("model") or STRATEGY.default_model, weights=weights)
        found = detect_text(body, loaded, build_watermark_config(mark), **where)
        wrong = detect_text(body, loaded, build_watermark_config(_with_wrong_key(mark)), **where)
    except EngineError as error:
        return f"<p class='dp-status bad'>{message_html(str(error))}</p>"
    return detection_html(found, loaded.pieces.of(found.ids), wrong)


def _with_wrong_key(mark: dict[str, Any]) -> dict[str, Any]:
    """Return the same watermark with adjacent keys, as a control that must find nothing."""
    config = build_watermark_config(mark)
    key = config.hashing_key + 1 if config.hashing_key < MAX_KEY else 1
    return {**mark, "hashing_key": key, "keys": tuple((k + 1) % MAX_KEY for k in config.keys)}
