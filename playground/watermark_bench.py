"""The watermark bench: judge any text, see what a wrong key finds, and what the mark costs."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

import gradio as gr

from engine.catalogue import CATALOGUE
from engine.decoding import decode
from engine.detect import Detection, detect_text, detect_trace, watermark_config
from engine.errors import EngineError
from engine.events import Failed, Finished
from engine.models import load
from engine.request import DecodeRequest
from engine.trace import Trace
from playground import raw
from playground.guard import guarded, sentence

WRONG = 1
"""Added to the key for the control: any other key must find nothing."""
_PROMPT = "Once upon a time, there was a little girl named Lily. She"
_WIDE, _HIGH, _LEFT, _FOOT = 640, 170, 40, 26


def build_watermark_bench(queue: str) -> None:
    """Build the bench's tab; ``queue`` is the one that runs share."""
    with gr.Tab("Watermark bench", id="watermark_bench", elem_id="tab-watermark_bench"):
        gr.HTML(
            "<p>Write a marked and an unmarked text from one seed, or paste any text, and watch "
            "the verdict move as you replace words. The prompt is never counted.</p>",
            elem_classes="dp-about",
        )
        with gr.Row(equal_height=False, elem_classes="dp-columns"):
            with gr.Column(min_width=0, elem_classes="dp-ask"):
                prompt = raw.Textbox(_PROMPT, label="Prompt", lines=2, elem_id="wb-prompt")
                write = gr.Button("Write both texts", variant="primary", elem_id="wb-write")
            with gr.Column(min_width=0, elem_classes="dp-right"):
                pair = gr.HTML("", elem_id="wb-pair", apply_default_css=False)
                text = raw.Textbox(
                    label="Text to judge, without its prompt", lines=6, elem_id="wb-text"
                )
                judged = gr.HTML("", elem_id="wb-judged", apply_default_css=False)
            with gr.Column(min_width=0, elem_classes="dp-settings"):
                settings = _settings()
        model, seed, tokens, *others = settings.values()
        names = list(settings)[3:]

        def compare(*values: Any) -> Iterator[tuple[Any, Any, Any]]:
            yield from _write_both(names, *values)

        def again(body: str, model_name: Any, *values: Any) -> str:
            return judge_text(body, model_name, dict(zip(names, values, strict=True)))

        write.click(
            compare,
            [prompt, model, seed, tokens, *others],
            [pair, text, judged],
            concurrency_id=queue,
            api_visibility="private",
            show_progress="minimal",
        )
        for control in (text, model, *others):
            trigger = control.input if control is text else control.change
            trigger(
                guarded(again),
                [text, model, *others],
                judged,
                api_visibility="private",
                show_progress="hidden",
                trigger_mode="always_last",
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
        "max_new_tokens": raw.Slider(
            8, 256, value=100, step=1, label="New tokens", elem_id="wb-tokens"
        ),
        "scheme": raw.Dropdown(
            ["greenlist", "synthid"], value="greenlist", label="Watermark", elem_id="wb-scheme"
        ),
        "greenlist_ratio": raw.Slider(
            0.05, 0.95, value=0.25, step=0.05, label="Green share", elem_id="wb-ratio"
        ),
        "bias": raw.Slider(0, 8, value=2.5, step=0.1, label="Bias", elem_id="wb-bias"),
        "seeding_scheme": raw.Dropdown(
            ["lefthash", "selfhash"], value="lefthash", label="Seeding", elem_id="wb-seeding"
        ),
        "context_width": raw.Slider(
            1, 8, value=1, step=1, label="Context width", elem_id="wb-context"
        ),
        "hashing_key": raw.Number(15485863, label="Key", precision=0, elem_id="wb-key"),
        "ignore_repeated_ngrams": raw.Checkbox(
            value=False, label="Count n-grams once", elem_id="wb-once"
        ),
        "z_threshold": raw.Slider(
            0, 10, value=3, step=0.1, label="z threshold", elem_id="wb-threshold"
        ),
    }


def _write_both(
    names: list[str], prompt: Any, model: Any, seed: Any, tokens: Any, *values: Any
) -> Iterator[tuple[Any, Any, Any]]:
    """Decode with the mark and without it from the same seed; yields (pair, text, verdict)."""
    mark = _whole(dict(zip(names, values, strict=True)))
    length = {"max_new_tokens": _number(tokens)}
    traces: list[Trace] = []
    for strategy, params in (("watermark", {**mark, **length}), ("sampling", length)):
        yield f"<p class='dp-note'>Writing text {len(traces) + 1} of 2 …</p>", gr.skip(), gr.skip()
        request = DecodeRequest(strategy, model, prompt, params=params, seed=_number(seed))
        last = None
        for event in decode(request):
            last = event
        if isinstance(last, Failed):
            raise gr.Error(sentence(last.error), print_exception=False)
        assert isinstance(last, Finished)
        traces.append(last.trace)
    body = traces[0].outputs[0].text
    yield pair_html(traces[0], traces[1], mark), body, judge_text(body, model, mark)


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _whole(values: dict[str, Any]) -> dict[str, Any]:
    counts = ("context_width", "hashing_key")
    return {n: _number(v) if n in counts else _real(n, v) for n, v in values.items()}


def _real(name: str, value: Any) -> Any:
    kinds = ("greenlist_ratio", "bias", "z_threshold")
    return float(value) if name in kinds and type(value) is int else value


def judge_text(body: str, model: Any, mark: dict[str, Any]) -> str:
    """Return the verdict on a text as HTML; what cannot be judged is said in its place."""
    if not body or not body.strip():
        return "<p class='dp-note'>Paste or write a text, and it is judged as you type.</p>"
    mark = _whole(mark)
    try:
        loaded = load(model)
        found = detect_text(body, loaded, watermark_config(mark))
        control = {**mark, "hashing_key": mark["hashing_key"] + WRONG}
        if mark["scheme"] == "synthid":
            keys = watermark_config(mark).keys
            control = {**mark, "keys": tuple(key + WRONG for key in keys)}
        wrong = detect_text(body, loaded, watermark_config(control))
    except EngineError as error:
        return f"<p class='dp-status bad'>{escape(str(error))}</p>"
    return detection_html(found, loaded.pieces.of(found.ids), wrong)


def pair_html(marked: Trace, plain: Trace, mark: dict[str, Any]) -> str:
    """Return both texts side by side: z, p, and the price in perplexity under the model itself."""
    cards = []
    overrides = {n: v for n, v in mark.items() if n in ("z_threshold", "ignore_repeated_ngrams")}
    for title, trace in (("With the mark", marked), ("Without it, same seed", plain)):
        try:
            found = detect_trace(trace, mark if trace is plain else overrides)
        except EngineError as error:
            cards.append(f"<div class='dp-card'><h3>{title}</h3>{escape(str(error))}</div>")
            continue
        v = found.verdict
        cards.append(
            f"<div class='dp-card'><h3>{title}</h3>{_colours(found, trace.pieces)}"
            f"<p class='dp-costs'>{_fact('z', f'{v.z_score:.2f}')}{_fact('p', _small(v.p_value))}"
            f"{_fact('perplexity', _perplexity(trace))}</p></div>"
        )
    prompt = escape(marked.prompt or "")
    price = ""
    if "perplexity" in marked.metrics and "perplexity" in plain.metrics:
        ratio = marked.metrics["perplexity"] / plain.metrics["perplexity"]
        price = (
            f"<p class='dp-note'>The price of the mark on this pair: perplexity × {ratio:.2f} "
            "under the model's own distribution.</p>"
        )
    return (
        f"<p class='wm-prompt'><b>Prompt, not counted:</b> {prompt}</p>"
        f"<div class='wm-pair'>{''.join(cards)}</div>{price}"
    )


def detection_html(found: Detection, pieces: dict[int, str], wrong: Detection) -> str:
    """Return a text's tokens, its count, z, p, the control with a wrong key, and z over length."""
    v = found.verdict
    says = "✓ Marked" if v.prediction else "✗ Not shown to be marked"
    relation = "above" if v.prediction else "not above"
    facts = [
        _fact("tokens", str(len(found.ids))),
        _fact("T (counted)", str(v.num_tokens_scored)),
        _fact("hits", f"{v.hits} of {v.trials}"),
        _fact("share", f"{100 * v.fraction:.1f} %, by chance {100 * v.expected_fraction:.1f} %"),
        _fact("z", f"{v.z_score:.2f}"),
        _fact("p, exact one-sided", _small(v.p_value)),
    ]
    kind = "yes" if v.prediction else "no"
    return (
        f"<div class='dp-card'>{_colours(found, pieces)}"
        f"<p class='wm-verdict {kind}' data-z='{v.z_score:.6f}'>{says}: z = {v.z_score:.2f} is "
        f"{relation} the threshold of {v.z_threshold:g}.</p><p class='dp-costs'>{''.join(facts)}"
        f"</p><p class='dp-note'>Control with a wrong key: z = {wrong.verdict.z_score:.2f}, "
        f"p = {_small(wrong.verdict.p_value)}.</p>{curve_svg(found, wrong)}</div>"
    )


def _colours(found: Detection, pieces: dict[int, str]) -> str:
    """Return the tokens with colour, underline and a letter."""
    spans = []
    for token, mark in zip(found.ids, found.marks, strict=True):
        kind, label = "skip", "–"
        if mark.scored and mark.g_values:
            kind, label = "bits", str(mark.hits)
        elif mark.scored:
            kind, label = ("green", "G") if mark.is_green else ("red", "R")
        title = escape(mark.reason or f"{kind}, counted", quote=True)
        text = escape(pieces[token].replace("\n", "⏎"))
        spans.append(
            f"<span class='wm-tok {kind}' title='{title}'><span class='t'>{text}</span>"
            f"<i>{label}</i></span>"
        )
    return f"<div class='wm-text'>{''.join(spans)}</div>"


def curve_svg(found: Detection, wrong: Detection) -> str:
    """Return z over the length of the text, with the threshold and the wrong key's curve."""
    threshold = found.verdict.z_threshold
    values = [z for z in (*found.curve, *wrong.curve) if z is not None]
    high, low = max(threshold + 1, *values), min(-1.0, *values)
    end = max(10, len(found.curve))

    def x(n: int) -> float:
        return _LEFT + n / end * (_WIDE - _LEFT - 12)

    def y(z: float) -> float:
        return 8 + (high - z) / (high - low) * (_HIGH - _FOOT - 8)

    def path(curve: tuple[float | None, ...]) -> str:
        places = [(n, z) for n, z in enumerate(curve, 1) if z is not None]
        return "M" + " L".join(f"{x(n):.1f} {y(z):.1f}" for n, z in places)

    line = f"x1='{_LEFT}' x2='{_WIDE - 12}'"
    return (
        f"<svg class='wm-plot' viewBox='0 0 {_WIDE} {_HIGH}' role='img' aria-label='z over the "
        f"tokens, at the end {found.verdict.z_score:.2f}'>"
        f"<line class='axis' {line} y1='{y(0):.1f}' y2='{y(0):.1f}'/>"
        f"<line class='limit' {line} y1='{y(threshold):.1f}' y2='{y(threshold):.1f}'/>"
        f"<text x='{_WIDE - 14}' y='{y(threshold) - 4:.1f}' text-anchor='end'>threshold</text>"
        f"<text x='{_LEFT - 6}' y='{y(0) + 4:.1f}' text-anchor='end'>0</text>"
        f"<path class='curve other' d='{path(wrong.curve)}' fill='none'/>"
        f"<path class='curve' d='{path(found.curve)}' fill='none'/>"
        f"<text x='{_LEFT}' y='{_HIGH - 6}'>z over the tokens; dashed: the wrong key</text></svg>"
    )


def _fact(name: str, value: str) -> str:
    return f"<span>{name} <b>{escape(value)}</b></span> "


def _small(p: float) -> str:
    return f"{p:.4f}" if p >= 1e-4 else f"{p:.1e}"


def _perplexity(trace: Trace) -> str:
    value = trace.metrics.get("perplexity")
    return "unknown" if value is None else f"{value:.2f}"
