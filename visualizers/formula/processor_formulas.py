"""Formulas from a token's logit to its probability after the logits processors.

They are derived from the names and settings of the processors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.trace.details import WatermarkDetail
from engine.trace.records import Candidate, Step
from visualizers.distribution.repeats import repeat_penalties
from visualizers.formula.filter_formulas import FILTER_FORMULAS, ORDER_PRESERVING, FilterStage
from visualizers.formula.forms import fill_formula, number_setting

FormulaLine = dict[str, Any]
_BANS = frozenset(("NoRepeatNGram", "NoBadWords", "SuppressTokens", "SuppressTokensAtBegin"))
_KNOWN_PROCESSORS = (
    ORDER_PRESERVING | _BANS | {*("RepetitionPenalty", "DRY", "XTC", "AdaptiveP", "GreenList")}
)
_MAX_EXPONENT = 700.0
_TOLERANCE = 1e-4


@dataclass(frozen=True)
class _LogitTransform:
    """The change of every logit before the softmax: repetition penalty, DRY and temperature."""

    temperature: float
    penalty: float
    before: frozenset[int]
    repeats: Mapping[int, tuple[int, float]]
    """See ``repeat_penalties``; empty without DRY."""

    def apply_repetition_penalty(self, token: int, logit: float) -> float:
        """Return the logit after the repetition penalty."""
        if self.penalty == 1 or token not in self.before:
            return logit
        return logit * self.penalty if logit < 0 else logit / self.penalty

    def apply_penalties(self, token: int, logit: float) -> float:
        """Return the logit after the repetition penalty and DRY."""
        return self.apply_repetition_penalty(token, logit) - self.repeats.get(token, (0, 0.0))[1]


def safe_exp(exponent: float) -> float | None:
    """Return e ** exponent; None if it would overflow or underflow."""
    return math.exp(exponent) if abs(exponent) < _MAX_EXPONENT else None


def iter_processor_formulas(
    step: Step, own: Candidate, config: Mapping[str, Any], before: Sequence[int]
) -> Iterator[FormulaLine | None]:
    """Yield the formulas from a token's logit to its probability after the processors.

    Yields nothing if a processor changed logits in a way that the record does not hold.

    Args:
        step: a step with candidates and stages.
        own: the chosen candidate.
        config: settings of the run.
        before: ids of prompt and output before the step.
    """
    names = [stage.name for stage in step.stages]
    if not names or not _KNOWN_PROCESSORS.issuperset(names) or own.raw_logprob == -math.inf:
        return
    shape = _LogitTransform(
        (number_setting(config, "temperature", 1.0) or 1.0) if "Temperature" in names else 1.0,
        (number_setting(config, "repetition_penalty", 1.0) or 1.0)
        if "RepetitionPenalty" in names
        else 1.0,
        frozenset(before),
        repeat_penalties(config, before) if "DRY" in names else {},
    )
    logit = own.raw_logprob + (step.logsumexp or 0.0)
    changed = shape.apply_repetition_penalty(own.token_id, logit)
    if changed != logit:
        form = "repeated_up" if logit < 0 else "repeated_down"
        yield fill_formula(form, own.token_id, changed, z=logit, r=shape.penalty)
    if own.token_id in shape.repeats:
        yield _dry_formula(own.token_id, changed, shape.repeats[own.token_id][0], config)
    changed = shape.apply_penalties(own.token_id, logit)
    for place, stage in enumerate(step.stages):
        if stage.name in FILTER_FORMULAS:
            yield FILTER_FORMULAS[stage.name](FilterStage(step, own, place, config))
    # Adaptive-p replaces the scores, so the softmax is not that of the logits.
    if "AdaptiveP" not in names:
        yield _softmax_formula(step, own, shape, changed, number_setting(config, "bias", 0.0))


def _dry_formula(
    token: int, logit: float, length: int, config: Mapping[str, Any]
) -> FormulaLine | None:
    operands = {
        "z": logit,
        "m": number_setting(config, "dry_multiplier", 0.0),
        "b": number_setting(config, "dry_base", 1.0),
        "n": length,
        "a": config["dry_allowed_length"],
    }
    return fill_formula("dry", token, **operands)


def _softmax_formula(
    step: Step, own: Candidate, shape: _LogitTransform, logit: float, added: float
) -> FormulaLine | None:
    """Return the softmax over the remaining tokens; another candidate of the step gives the sum.

    Args:
        step: a step with candidates.
        own: the chosen candidate.
        shape: the change of the logits.
        logit: its logit after the penalties.
        added: watermark bias of green tokens.
    """
    other = next((c for c in step.candidates if c.token_id != own.token_id), own)
    if other.processed_logprob == -math.inf:
        other = own
    bias = {c.token_id: _green_bias(step, c.token_id, added) for c in (own, other)}
    theirs = shape.apply_penalties(other.token_id, other.raw_logprob + (step.logsumexp or 0.0))
    total = theirs / shape.temperature + bias[other.token_id] - other.processed_logprob
    mine = logit / shape.temperature + bias[own.token_id] - total
    summed = safe_exp(total)
    if summed is None or abs(mine - own.processed_logprob) > _TOLERANCE:
        return None
    p = math.exp(own.processed_logprob)
    if isinstance(step.detail, WatermarkDetail) and step.detail.is_green is not None:
        operands = {"z": logit, "t": shape.temperature, "d": bias[own.token_id], "s": summed}
        return fill_formula("biased", own.token_id, p, **operands)
    return fill_formula("tempered", own.token_id, p, z=logit, t=shape.temperature, s=summed)


def _green_bias(step: Step, token: int, added: float) -> float:
    """Return the bias that a green list watermark added to a token's logit."""
    detail = step.detail
    if not isinstance(detail, WatermarkDetail) or detail.is_green is None:
        return 0.0
    if token in step.emit:
        return detail.bias
    return added if token in detail.green_candidates else 0.0
