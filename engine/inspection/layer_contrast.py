"""Why DoLa's plausibility cut removed a token."""

from __future__ import annotations

from engine.loops.dola import RELATIVE_TOP, LayerContrast, contrast_layers
from engine.messages import Message
from engine.number_text import format_percent, format_share, format_value, round_down_until
from engine.processors.removal import NO_REPLACEMENT, Removal, RemovalCase, token_name


def explain_layer_contrast(case: RemovalCase) -> Removal:
    """Explain DoLa's plausibility cut; its input is the last layer's logits."""
    allowed = case.processor.allowed
    if allowed is not None and not bool(allowed[case.row, case.token_id]):
        return Removal(
            Message(
                "No text that the settings allow goes on with {name} here, and DoLa contrasts allowed tokens only.",
                name=token_name(case),
            )
        )
    final = case.probs if allowed is None else case.probs * allowed[case.row]
    top = float(final.max())
    part = case.p / top
    why = Message(
        "DoLa removed {name} before the contrast: the last layer gives it {percent}, "
        "less than a tenth of the {top} of its favourite.",
        name=token_name(case),
        percent=format_percent(case.p),
        top=format_percent(top),
    )
    facts = (
        (
            "Share of the favourite",
            format_share(part),
            Message("DoLa contrasts tokens of at least {share}.", share=format_value(RELATIVE_TOP)),
        ),
    )
    value = round_down_until(part, lambda v: v <= part * (1 - 1e-6), 0.0)
    if value is None:
        return Removal(why, facts=facts)
    layers, premature = case.processor.layers, case.processor.premature
    instead = (
        NO_REPLACEMENT
        if layers is None or premature is None
        else LayerContrast(contrast_layers(layers, premature, value))
    )
    return Removal(
        why,
        Message("where {value} of the favourite's probability would do", value=format_value(value)),
        {"relative_top": value},
        instead,
        facts,
    )
