"""HTML of the watermark bench: coloured tokens, counts, and z over the number of tokens."""

from __future__ import annotations

from html import escape
from typing import Any

from engine.analysis.watermark_detection import Detection, detect_trace
from engine.errors import EngineError
from engine.messages import Message, join_messages
from engine.statistics.watermark_statistics import Verdict
from engine.trace.records import Trace
from engine.watermark.schemes import GreenList
from playground.i18n.message_html import message_html, templates_attribute

Curve = tuple[str, str, tuple[float | None, ...]]
"""Label of a line, CSS class of its stroke, and z after every token (None before it is defined)."""
_SHORTEST_AXIS = 10


def pair_html(marked: Trace, plain: Trace, mark: dict[str, Any]) -> str:
    """Return both texts side by side with z and p, the cost in perplexity, and z over the length.

    Args:
        marked: A run of the watermark strategy.
        plain: A run with the same prompt, seed and length, without the mark.
        mark: Watermark parameters, with which the plain text is tested as well.
    """
    cards, curves = [], []
    for title, name, stroke, trace in (
        ("With the mark", "with the mark", "", marked),
        ("Without it, same seed", "without it, same seed", "other", plain),
    ):
        try:
            found = detect_trace(trace, mark if trace is plain else None)
        except EngineError as error:
            cards.append(_card_html(title, f"<p class='dp-note'>{message_html(str(error))}</p>"))
            continue
        numbers = [
            *count_facts(found),
            fact_html("perplexity", _format_metric(trace, "perplexity")),
        ]
        body = tokens_html(found, trace.pieces) + verdict_html(found)
        cards.append(_card_html(title, f"{body}<p class='dp-costs'>{''.join(numbers)}</p>"))
        curves.append((name, stroke, found.curve))
    threshold = float(mark.get("z_threshold", 3.0))
    along = plot_html(curves, threshold) if curves else ""
    return (
        f"<p class='wm-prompt'><b>Prompt, never counted:</b> "
        f"<span class='t'>{escape(prompt_text(marked.prompt, marked.messages))}</span></p>"
        f"<div class='wm-pair'>{''.join(cards)}</div>{_perplexity_price_html(marked, plain)}"
        f"<div class='dp-card'><h3>How many tokens it takes</h3>{along}</div>"
    )


def prompt_text(prompt: Any, messages: Any) -> str:
    """Return the prompt, or the last message of a conversation."""
    return str(prompt or "") if not messages else str(messages[-1].get("content") or "")


def _card_html(title: str, body: str) -> str:
    return f"<div class='dp-card'><h3>{title}</h3>{body}</div>"


def _perplexity_price_html(marked: Trace, plain: Trace) -> str:
    """Return a sentence on the cost of the mark: the ratio of the two perplexities."""
    if "perplexity" not in marked.metrics or "perplexity" not in plain.metrics:
        return ""
    ratio = marked.metrics["perplexity"] / plain.metrics["perplexity"]
    price = Message(
        "The price of the mark on this pair: perplexity × {ratio}, measured with the model's own "
        "unmarked distribution. One pair varies by chance; try other seeds.",
        ratio=f"{ratio:.2f}",
    )
    return f"<p class='dp-note'>{message_html(price)}</p>"


def _format_metric(trace: Trace, name: str) -> str:
    value = trace.metrics.get(name)
    return "unknown" if value is None else f"{value:.2f}"


def detection_html(found: Detection, pieces: dict[int, str], wrong: Detection) -> str:
    """Return the verdict on a text: tokens, counts, z, p, wrong-key control, z over the length."""
    note = join_messages(
        [
            Message(
                "Control with a wrong key: z = {z}, p = {p}.",
                z=format_z(wrong.verdict.z_score),
                p=format_p(wrong.verdict.p_value),
            ),
            _repeats_note(found.verdict),
            Message("Random numbers drawn on {device}.", device=found.device),
            (
                "The text is split into tokens again, and these may differ from the tokens that "
                "were written."
            ),
        ]
    )
    facts = [fact_html("tokens", str(len(found.ids))), *count_facts(found)]
    curves: list[Curve] = [
        ("this key", "", found.curve),
        ("a wrong key", "other", wrong.curve),
    ]
    return (
        f"<div class='dp-card'>{tokens_html(found, pieces)}{verdict_html(found)}"
        f"<p class='dp-costs'>{''.join(facts)}</p><p class='dp-note'>{message_html(note)}</p>"
        f"{plot_html(curves, found.verdict.z_threshold)}</div>"
    )


def verdict_html(found: Detection) -> str:
    """Return the verdict as one sentence; ``data-z`` holds z to six decimals."""
    v = found.verdict
    values = {"z": format_z(v.z_score), "threshold": f"{v.z_threshold:g}"}
    if v.doubtful:
        kind = "doubt"
        says = Message(
            "? Doubtful: z = {z} is above the threshold of {threshold} only because repeats are "
            "counted; every draw counted once gives {distinct}.",
            **values,
            distinct=format_z(v.distinct_z_score),
        )
    elif v.prediction:
        kind = "yes"
        says = Message("✓ Marked: z = {z} is above the threshold of {threshold}.", **values)
    else:
        kind = "no"
        says = Message(
            "✗ Not shown to be marked: z = {z} is not above the threshold of {threshold}.",
            **values,
        )
    return (
        f"<p class='wm-verdict {kind}' data-z='{v.z_score:.6f}'{templates_attribute(says)}>"
        f"{escape(says)}</p>"
    )


def count_facts(found: Detection) -> list[str]:
    """Return T, the hits, their share, z, the figures without repeats, and the exact p-value."""
    v = found.verdict
    hits = "green" if isinstance(found.scheme, GreenList) else "ones"
    return [
        fact_html("T (tokens that count)", str(v.num_tokens_scored)),
        fact_html(hits, Message("{hits} of {trials}", hits=v.hits, trials=v.trials)),
        fact_html(
            "share",
            Message(
                "{share} %, by chance {expected} %",
                share=f"{100 * v.fraction:.1f}",
                expected=f"{100 * v.expected_fraction:.1f}",
            ),
        ),
        fact_html("z", format_z(v.z_score)),
        *_distinct_facts(v),
        fact_html("p, exact one-sided", format_p(v.p_value)),
    ]


def _distinct_facts(v: Verdict) -> list[str]:
    """Return hits and z with repeated draws counted once, nothing if no draw repeats."""
    if not v.repeats:
        return []
    said = Message(
        "{hits} of {trials}, z {z}",
        hits=v.distinct_hits,
        trials=v.distinct_trials,
        z=format_z(v.distinct_z_score),
    )
    return [fact_html("without repeats", said)]


def _repeats_note(v: Verdict) -> str:
    if not v.repeats:
        return ""
    return (
        "A token that comes back after the same context has the same colour again, so p counts it "
        "once."
    )


def tokens_html(found: Detection, pieces: dict[int, str]) -> str:
    """Return the tokens with colour, underline and a letter, or their number of one bits."""
    spans = []
    for token, mark in zip(found.ids, found.marks, strict=True):
        kind, label, share = "skip", "–", ""
        if mark.scored and mark.g_values:
            kind, label = "bits", str(mark.hits)
            share = f" style='--share:{mark.hits / len(mark.g_values):.2f}'"
        elif mark.scored:
            kind, label = ("green", "G") if mark.is_green else ("red", "R")
        if mark.reason:
            says = Message("not counted: {reason}", reason=mark.reason)
        elif mark.fresh:
            says = Message("{label} – counted", label=label)
        else:
            says = Message("{label} – counted, a repeat: not in p", label=label)
        text = escape(pieces[token].replace("\n", "⏎"))
        spans.append(
            f"<span class='wm-tok {kind}'{share} title='{escape(says, quote=True)}'"
            f"{templates_attribute(says)}>"
            f"<span class='t'>{text}</span><i>{label}</i></span>"
        )
    return f"<div class='wm-text'>{''.join(spans)}</div>{_legend_html(found)}"


def _legend_html(found: Detection) -> str:
    if isinstance(found.scheme, GreenList):
        own = "<span><b class='wm-tok green'>G</b> green</span><span><b class='wm-tok red'>R</b> red</span>"
    else:
        ones = Message("number: keyed bits that are ones, of {n}", n=len(found.scheme.keys))
        own = message_html(ones)
    return f"<p class='dp-legend'>{own}<span><b class='wm-tok skip'>–</b> not counted</span></p>"


def plot_html(curves: list[Curve], threshold: float) -> str:
    """Return a plot of z over the tokens with the threshold.

    Labels are HTML, since the SVG is stretched.
    """
    values = [z for _, _, curve in curves for z in curve if z is not None]
    high, low = max([threshold + 1, *values]), min([-1.0, *values])
    end = max(_SHORTEST_AXIS, *(len(curve) for _, _, curve in curves))

    def y(z: float) -> float:
        return 100 * (high - z) / (high - low)

    lines = [
        f"<path class='axis' d='M0 {y(0):.2f}H100'/>",
        f"<path class='limit' d='M0 {y(threshold):.2f}H100'/>",
        *(_curve_path(curve, stroke, end, y) for _, stroke, curve in reversed(curves)),
    ]
    ticks = [0.0, threshold, *([float(int(high))] if high > threshold + 2 else [])]
    marks = [f"<span style='top:{y(z):.2f}%'>{z:g}</span>" for z in dict.fromkeys(ticks)]
    names = [
        f"<span><i class='wm-key {stroke}'></i> "
        + message_html(
            Message("{name}: {reached}", name=name, reached=_threshold_text(curve, threshold))
        )
        + "</span>"
        for name, stroke, curve in curves
    ]
    limit = Message("threshold {threshold}", threshold=f"{threshold:g}")
    return (
        "<div class='wm-along' role='img' aria-label='z over the number of tokens'>"
        f"<div class='y'>{''.join(marks)}</div><svg viewBox='0 0 100 100' "
        f"preserveAspectRatio='none'>{''.join(lines)}</svg></div>"
        f"<p class='wm-x'><span>1</span><span>z after so many tokens</span><span>{end}</span></p>"
        f"<p class='dp-legend'>{''.join(names)}<span><i class='wm-key limit'></i> "
        f"{message_html(limit)}</span></p>"
    )


def _curve_path(curve: tuple[float | None, ...], stroke: str, end: int, y: Any) -> str:
    places = [(n, z) for n, z in enumerate(curve, 1) if z is not None]
    if not places:
        return ""
    line = " L".join(f"{100 * (n - 1) / (end - 1):.2f} {y(z):.2f}" for n, z in places)
    return f"<path class='curve {stroke}' d='M{line}'/>"


def _threshold_text(curve: tuple[float | None, ...], threshold: float) -> str:
    """Return a phrase on the token from which z stays above the threshold."""
    above = [z is not None and z > threshold for z in curve]
    if not above or not above[-1]:
        return "not above it at the end"
    last_below = max((n for n, over in enumerate(above, 1) if not over), default=0)
    return Message("above it for good from token {n} on", n=last_below + 1)


def fact_html(name: str, value: str) -> str:
    """Return a labelled number as HTML."""
    return f"<span>{name} <b>{message_html(value)}</b></span> "


def format_z(z: float) -> str:
    """Format a z-score with two decimals (near 0 two significant digits) and a real minus sign."""
    plain = f"{z:.2f}"
    return (f"{z:.2g}" if z and float(plain) == 0 else plain).replace("-", "−")


def format_p(p: float) -> str:
    """Format a probability with four decimals, or as a power of ten below 10⁻⁴."""
    if p >= 1e-4:
        return f"{p:.4f}"
    if p == 0:
        return "below 10⁻³⁰⁰"
    digits, exponent = f"{p:.1e}".split("e-")
    return (
        f"{digits} · 10⁻{str(int(exponent)).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
    )
