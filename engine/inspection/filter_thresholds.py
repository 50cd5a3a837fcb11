"""Why a filter removed a token, and the parameter value that would have let it through.

The value follows from each processor's definition and is verified on the processor itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from engine.inspection.ban_explanations import BAN_EXPLAINERS
from engine.inspection.removal import (
    NO_REPLACEMENT,
    Removal,
    RemovalCase,
    removal_until_off,
    token_name,
)
from engine.messages import Message
from engine.number_text import (
    format_number,
    format_percent,
    format_share,
    format_value,
    quote_token,
    round_down_until,
    round_up_until,
)

_LN2 = 0.6931471805599453


def explain_removal(case: RemovalCase) -> Removal:
    """Return why a processor removed a token."""
    name = type(case.processor).__name__
    tell = _EXPLAINERS.get(name)
    if tell is not None:
        return tell(case)
    return Removal(
        Message(
            "{name} makes {piece} impossible here.",
            name=name,
            piece=quote_token(case.piece(case.token_id)),
        )
    )


def _explain_top_k(case: RemovalCase) -> Removal:
    place = int((case.scores > case.scores[case.token_id]).sum()) + 1
    kept = case.processor.top_k
    why = Message(
        "Top-k removed {name}: it is number {place}, and only the first {kept} stay.",
        name=token_name(case),
        place=f"{place:,}",
        kept=f"{kept:,}",
    )
    facts = (
        (
            "Place at top-k",
            f"{place:,}",
            Message("Counted where top-k looked; {kept} are kept.", kept=f"{kept:,}"),
        ),
    )
    return Removal(
        why,
        Message("at top_k ≥ {value}", value=place),
        {"top_k": place},
        case.with_value(top_k=place),
        facts,
    )


def _explain_top_p(case: RemovalCase) -> Removal:
    order = torch.sort(case.scores, descending=False)
    mass = order.values.softmax(-1).cumsum(-1)
    at = int((order.indices == case.token_id).nonzero())
    before = 1 - float(mass[at])
    given = case.processor.top_p
    why = Message(
        "Top-p removed {name}: the tokens before it already hold {share} of the "
        "probability, and top_p = {given} asks for no more.",
        name=token_name(case),
        share=format_share(before),
        given=format_value(given),
    )
    facts = (
        ("Held before it", format_share(before), "Top-p keeps tokens until this reaches top_p."),
    )
    value = round_up_until(before, lambda v: case.is_kept_by(case.with_value(top_p=v)), 1.0)
    if value is None:
        return removal_until_off(case, why, "top_p", 1.0, facts)
    return Removal(
        why,
        Message("at top_p ≥ {value}", value=format_value(value)),
        {"top_p": value},
        case.with_value(top_p=value),
        facts,
    )


def _explain_min_p(case: RemovalCase) -> Removal:
    top = float(case.probs.max())
    ratio = case.p / top
    given = float(case.processor.min_p)
    why = Message(
        "Min-p removed {name}: with {percent} it has {share} of the best token's "
        "probability, and min_p = {given} asks for more.",
        name=token_name(case),
        percent=format_percent(case.p),
        share=format_share(ratio),
        given=format_value(given),
    )
    facts = (
        ("Share of the best", format_share(ratio), "Its probability over that of the best token."),
    )
    value = round_down_until(ratio, lambda v: case.is_kept_by(case.with_value(min_p=v)), 0.0)
    if value is None:
        return removal_until_off(case, why, "min_p", None, facts)
    return Removal(
        why,
        Message("at min_p ≤ {value}", value=format_value(value)),
        {"min_p": value},
        case.with_value(min_p=value),
        facts,
    )


def _explain_top_h(case: RemovalCase) -> Removal:
    warper = case.processor
    top = case.scores.topk(min(warper.top_n, len(case.scores)))
    found = (top.indices == case.token_id).nonzero()
    given = format_value(float(warper.top_h))
    if not len(found):
        why = Message(
            "Top-h removed {name}: it looks at the {top_n} best tokens only.",
            name=token_name(case),
            top_n=warper.top_n,
        )
        return removal_until_off(case, why, "top_h", None)
    dist = torch.distributions.Categorical(logits=top.values)
    terms = (-dist.probs * torch.log(dist.probs)).cumsum(-1)
    part = float(terms[int(found[0])] / dist.entropy())
    told = format_share(part)
    why = Message(
        "Top-h removed {name}: the tokens down to it hold {told} of the entropy, and "
        "top_h = {given} allows no more.",
        name=token_name(case),
        told=told,
        given=given,
    )
    facts = (("Entropy down to it", told, "Share of the entropy of the best tokens."),)
    value = round_up_until(part, lambda v: case.is_kept_by(case.with_value(top_h=v)), 1.0)
    if value is None:
        return removal_until_off(case, why, "top_h", None, facts)
    return Removal(
        why,
        Message("at top_h ≥ {value}", value=format_value(value)),
        {"top_h": value},
        case.with_value(top_h=value),
        facts,
    )


def _explain_typical_p(case: RemovalCase) -> Removal:
    logprobs = torch.log_softmax(case.scores, -1)
    entropy = -(logprobs * logprobs.exp()).nansum()
    off = (-logprobs - entropy).abs()
    order = off.sort()
    mass = case.scores[order.indices].softmax(-1).cumsum(-1)
    at = int((order.indices == case.token_id).nonzero())
    before = float(mass[at - 1]) if at else 0.0
    why = Message(
        "Typical-p removed {name}: its surprise is {bits} bits away from the "
        "expected one, and the tokens that are nearer already hold {share} of the "
        "probability.",
        name=token_name(case),
        bits=format_number(float(off[case.token_id] / _LN2)),
        share=format_share(before),
    )
    facts = (
        (
            "Held by more typical ones",
            format_share(before),
            "Typical-p stops when this reaches it.",
        ),
    )
    value = round_up_until(before, lambda v: case.is_kept_by(case.with_value(mass=v)), 1.0)
    if value is None:
        return removal_until_off(case, why, "typical_p", 1.0, facts)
    changes, instead = {"typical_p": value}, case.with_value(mass=value)
    return Removal(
        why, Message("at typical_p ≥ {value}", value=format_value(value)), changes, instead, facts
    )


def _explain_epsilon_cutoff(case: RemovalCase) -> Removal:
    given = float(case.processor.epsilon)
    why = Message(
        "The epsilon cutoff removed {name}: it has {percent}, and {share} is the least.",
        name=token_name(case),
        percent=format_percent(case.p),
        share=format_share(given),
    )
    value = round_down_until(case.p, lambda v: case.is_kept_by(case.with_value(epsilon=v)), 0.0)
    if value is None:
        return removal_until_off(case, why, "epsilon_cutoff", 0.0)
    changes, instead = {"epsilon_cutoff": value}, case.with_value(epsilon=value)
    return Removal(
        why, Message("at epsilon_cutoff ≤ {value}", value=format_value(value)), changes, instead
    )


def _explain_eta_cutoff(case: RemovalCase) -> Removal:
    warper = case.processor
    entropy = torch.distributions.Categorical(logits=case.scores).entropy()
    least = float(torch.min(warper.epsilon, torch.sqrt(warper.epsilon) * torch.exp(-entropy)))
    why = Message(
        "The eta cutoff removed {name}: it has {percent}, and with this entropy "
        "{least} is the least.",
        name=token_name(case),
        percent=format_percent(case.p),
        least=format_percent(least),
    )
    facts = (
        ("Least probability", format_percent(least), "What eta_cutoff makes of this entropy."),
    )
    # The cutoff is min(epsilon, sqrt(epsilon) * exp(-entropy)); this solves it for epsilon.
    bound = max(case.p, (case.p * float(entropy.exp())) ** 2)

    def other(value: float) -> Any:
        return case.with_value(epsilon=torch.tensor(value, device=case.before.device))

    value = round_down_until(bound, lambda v: case.is_kept_by(other(v)), 0.0)
    if value is None:
        return removal_until_off(case, why, "eta_cutoff", 0.0, facts)
    return Removal(
        why,
        Message("at eta_cutoff ≤ {value}", value=format_value(value)),
        {"eta_cutoff": value},
        other(value),
        facts,
    )


def _explain_layer_contrast(case: RemovalCase) -> Removal:
    """Explain DoLa's plausibility cut; its input is the last layer's logits."""
    from engine.loops.dola import RELATIVE_TOP

    top = float(case.probs.max())
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
    return Removal(
        why,
        Message("where {value} of the favourite's probability would do", value=format_value(value)),
        {"relative_top": value},
        NO_REPLACEMENT,
        facts,
    )


_EXPLAINERS: dict[str, Callable[[RemovalCase], Removal]] = BAN_EXPLAINERS | {
    "TopKLogitsWarper": _explain_top_k,
    "TopPLogitsWarper": _explain_top_p,
    "MinPLogitsWarper": _explain_min_p,
    "TopHLogitsWarper": _explain_top_h,
    "TypicalLogitsWarper": _explain_typical_p,
    "EpsilonLogitsWarper": _explain_epsilon_cutoff,
    "EtaLogitsWarper": _explain_eta_cutoff,
    "LayerContrast": _explain_layer_contrast,
}
