"""The watermark bench: judge any text, see what a wrong key finds, and what the mark costs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from html import escape
from typing import Any

import gradio as gr

from engine.after.detect import detect_text, watermark_config
from engine.declare.params import defaults_of, params_of
from engine.errors import EngineError
from engine.models.catalogue import CATALOGUE
from engine.models.loading import load
from engine.run.decoding import decode
from engine.run.request import DecodeRequest
from engine.strategies.watermark import MAX_KEY, STRATEGY
from engine.trace.events import Failed, Finished, TextDelta
from engine.trace.records import Trace
from playground import controls, raw
from playground.guard import guarded, sentence
from playground.watermark_view import detection_html, pair_html
from playground.zerogpu import on_gpu

_INTERVAL_S = 0.3
_FIRST = STRATEGY.presets[0]
_MARK = {
    "scheme": "wb-scheme",
    "greenlist_ratio": "wb-ratio",
    "bias": "wb-bias",
    "seeding_scheme": "wb-seeding",
    "context_width": "wb-context",
    "hashing_key": "wb-key",
    "ngram_len": "wb-ngram",
    "ignore_repeated_ngrams": "wb-once",
    "z_threshold": "wb-threshold",
}
"""The mark's parameters that the bench offers, each with its element."""
_TITLES = ("With the mark", "Without it, same seed")


def build_watermark_bench(queue: str) -> None:
    """Build the bench's tab; ``queue`` is the one that runs share."""
    with gr.Tab("Watermark bench", id="watermark_bench", elem_id="tab-watermark_bench"):
        gr.HTML(
            "<h2 class='dp-sr'>Watermark bench</h2>"
            "<p>Write a marked and an unmarked text from one seed, or paste any text, and watch "
            "the verdict move as you replace words. The prompt is never counted.</p>",
            elem_classes="dp-about",
        )
        with gr.Row(equal_height=False, elem_classes="dp-columns"):
            with gr.Column(min_width=0, elem_classes="dp-ask"):
                prompt = raw.Textbox(_FIRST.prompt, label="Prompt", lines=2, elem_id="wb-prompt")
                with gr.Row():
                    write = gr.Button("Write both", variant="primary", elem_id="wb-write")
                    stop = gr.Button("Stop", elem_id="wb-stop")
            with gr.Column(min_width=0, elem_classes="dp-right"):
                text = raw.Textbox(
                    label="Text to judge: written below, pasted or edited",
                    placeholder="Paste a text; it is judged as you type.",
                    lines=5,
                    elem_id="wb-text",
                )
                judged = gr.HTML(_NOTHING, elem_id="wb-judged", apply_default_css=False)
                pair = gr.HTML(_NO_PAIR, elem_id="wb-pair", apply_default_css=False)
            with gr.Column(min_width=0, elem_classes="dp-settings"):
                settings = _settings()
    _wire(queue, settings, prompt, write, stop, text, judged, pair)


_NOTHING = (
    "<p class='dp-note'>The verdict appears here: every token's colour, T, the green count, z, the "
    "exact p-value, and z over the text.</p>"
)
_SAY_STOPPED = """() => { const says = document.querySelector("#wb-pair .wm-writing");
  if (says) says.textContent = "Stopped."; }"""
_NO_PAIR = (
    "<p class='dp-note'>Write both texts to see them side by side, with what the mark costs in "
    "perplexity.</p>"
)


def _settings() -> dict[str, Any]:
    """Return the controls by name; the first three do not belong to the watermark itself."""
    entries = [e for e in CATALOGUE.values() if e.role == "target" and e.available]
    return {
        "model": raw.Dropdown(
            [(e.title, e.name) for e in entries],
            value="storyteller",
            label="Model and tokenizer",
            allow_custom_value=True,
            elem_id="wb-model",
        ),
        "seed": raw.Number(0, label="Seed", precision=0, elem_id="wb-seed"),
        "max_new_tokens": _control("max_new_tokens", "wb-tokens"),
        "device": raw.Dropdown(
            [("the model's own device", ""), "cpu", "cuda", "mps"],
            value="",
            label="Pasted text was marked on",
            info="Every kind of device draws other lists.",
            elem_id="wb-device",
        ),
        **{name: _control(name, elem_id) for name, elem_id in _MARK.items()},
    }


def _control(name: str, elem_id: str) -> Any:
    """Return the declared control of a parameter, set as the first preset has it."""
    default = _FIRST.params.get(name, defaults_of(STRATEGY.config)[name])
    return controls.widget(name, params_of(STRATEGY.config)[name], default, elem_id)


def _wire(
    queue: str,
    settings: dict[str, Any],
    prompt: Any,
    write: Any,
    stop: Any,
    text: Any,
    judged: Any,
    pair: Any,
) -> None:
    model, seed, tokens, device, *others = settings.values()
    names = list(settings)[4:]

    def compare(*values: Any) -> Iterator[tuple[Any, Any, Any, Any]]:
        yield from write_both(names, *values)

    def again(body: Any, before: Any, model_name: Any, where: Any, *values: Any) -> str:
        mark = dict(zip(names, values, strict=True))
        return judge_text(body, model_name, mark, prompt=before, device=where)

    running = write.click(
        on_gpu(compare),
        [prompt, model, seed, tokens, *others],
        [pair, text, judged, device],
        concurrency_id=queue,
        api_visibility="private",
        show_progress="hidden",
    )
    stop.click(None, None, None, cancels=[running], api_visibility="private", js=_SAY_STOPPED)
    for control in (text, prompt, model, device, *others):
        # Not input, which Gradio's text field does not send for a paste.
        control.change(
            guarded(again),
            [text, prompt, model, device, *others],
            judged,
            concurrency_limit=None,
            api_visibility="private",
            show_progress="hidden",
            trigger_mode="always_last",
        )


def write_both(
    names: list[str], prompt: Any, model: Any, seed: Any, tokens: Any, *values: Any
) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Decode with the mark and without it from one seed.

    Yields:
        (pair, text, verdict, device): while writing only the pair moves.

    Raises:
        gr.Error: one sentence.
    """
    mark = _whole(dict(zip(names, values, strict=True)))
    length = {"max_new_tokens": controls.whole(tokens)}
    traces: list[Trace] = []
    for strategy, params in (("watermark", {**mark, **length}), ("sampling", length)):
        request = DecodeRequest(strategy, model, prompt, params=params, seed=controls.whole(seed))
        for trace, text in _written(request):
            if trace is None:
                yield _writing(prompt, traces, text), gr.skip(), gr.skip(), gr.skip()
            else:
                traces.append(trace)
    marked, plain = traces
    body = marked.outputs[0].text
    yield pair_html(marked, plain, mark), body, judge_text(body, model, mark), ""


def _written(request: DecodeRequest) -> Iterator[tuple[Trace | None, str]]:
    """Yield the text as it grows and, last, the trace with it."""
    text = ""
    with closing(decode(request)) as run:
        for events in run.batches(_INTERVAL_S):
            for event in events:
                match event:
                    case TextDelta(_, keep, new):
                        text = text[:keep] + new
                    case Failed(error):
                        raise gr.Error(sentence(error), print_exception=False)
                    case Finished(trace):
                        yield trace, text
                        return
            yield None, text


def _writing(prompt: str, traces: list[Trace], text: str) -> str:
    """Return both texts so far."""
    texts = [*(trace.outputs[0].text for trace in traces), text, ""][:2]
    cards = "".join(
        f"<div class='dp-card'><h3>{title}</h3><p class='wm-draft'>{escape(words)}</p></div>"
        for title, words in zip(_TITLES, texts, strict=True)
    )
    return (
        f"<p class='wm-prompt'><b>Prompt, never counted:</b> {escape(prompt)}</p>"
        f"<div class='wm-pair'>{cards}</div><p class='dp-note wm-writing' role='status'>Writing text "
        f"{len(traces) + 1} of 2 …</p>"
    )


def _whole(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values with counts as whole numbers: sliders send 3.0 for 3."""
    counts = ("context_width", "hashing_key", "ngram_len")
    return {
        name: controls.whole(value) if name in counts else value for name, value in values.items()
    }


def judge_text(
    body: Any, model: Any, mark: dict[str, Any], *, prompt: Any = None, device: Any = None
) -> str:
    """Return the verdict on a text as HTML; what cannot be judged is said in its place.

    Args:
        body: the text.
        model: whose tokenizer reads it.
        mark: the watermark looked for, as the controls hold it.
        prompt: left out when the text starts with it.
        device: kind of device the text was marked on; empty is the model's own.
    """
    if body is None or (isinstance(body, str) and not body.strip()):
        return _NOTHING
    mark = _whole(mark)
    where = {"prompt": prompt if isinstance(prompt, str) else None, "device": device or None}
    try:
        loaded = load(model)
        found = detect_text(body, loaded, watermark_config(mark), **where)
        wrong = detect_text(body, loaded, watermark_config(_wrong_key(mark)), **where)
    except EngineError as error:
        return f"<p class='dp-status bad'>{escape(str(error))}</p>"
    return detection_html(found, loaded.pieces.of(found.ids), wrong)


def _wrong_key(mark: dict[str, Any]) -> dict[str, Any]:
    """Return the same mark with its neighbour's key: it must find nothing."""
    config = watermark_config(mark)
    key = config.hashing_key + 1 if config.hashing_key < MAX_KEY else 1
    return {**mark, "hashing_key": key, "keys": tuple((k + 1) % MAX_KEY for k in config.keys)}
