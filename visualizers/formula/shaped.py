"""What the processors made of a token's logit, where their names and settings tell it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.trace.details import WatermarkDetail
from engine.trace.records import Candidate, Step
from visualizers.formula.forms import filled, setting

Line = dict[str, Any]
_FILTERS = frozenset(("TopK", "TopP", "TopH", "MinP", "Typical", "Epsilon", "Eta"))
"""They remove tokens and leave the scores of the others alone."""
_BANS = frozenset(("NoRepeatNGram", "NoBadWords", "SuppressTokens", "SuppressTokensAtBegin"))
_ORDERED = _FILTERS | {"Temperature"}
"""They leave the order of the tokens alone."""
_KNOWN = _ORDERED | _BANS | {"RepetitionPenalty", "GreenList"}
_MOST_NATS = 700.0
_CLOSE = 1e-4


@dataclass(frozen=True)
class _Shape:
    """What happens to every logit before the softmax."""

    temperature: float
    penalty: float
    before: frozenset[int]

    def penalised(self, token: int, logit: float) -> float:
        """Return a logit after the repetition penalty."""
        if self.penalty == 1 or token not in self.before:
            return logit
        return logit * self.penalty if logit < 0 else logit / self.penalty


def power(exponent: float) -> float | None:
    """Return e to a power, None where that is too large or too small to be written down."""
    return math.exp(exponent) if abs(exponent) < _MOST_NATS else None


def lines(
    step: Step, own: Candidate, config: Mapping[str, Any], before: Sequence[int]
) -> Iterator[Line | None]:
    """Yield the formulas from a token's logit to its probability as used.

    Nothing where a processor ran that changes single logits by what the record does not hold.

    Args:
        step: with its candidates and stages.
        own: the candidate that was chosen.
        config: of the run.
        before: ids of prompt and output before the step.
    """
    names = [stage.name for stage in step.stages]
    if not names or not _KNOWN.issuperset(names) or own.raw_logprob == -math.inf:
        return
    shape = _Shape(
        (setting(config, "temperature", 1.0) or 1.0) if "Temperature" in names else 1.0,
        (setting(config, "repetition_penalty", 1.0) or 1.0)
        if "RepetitionPenalty" in names
        else 1.0,
        frozenset(before),
    )
    logit = own.raw_logprob + step.logsumexp
    changed = shape.penalised(own.token_id, logit)
    if changed != logit:
        form = "repeated_up" if logit < 0 else "repeated_down"
        yield filled(form, own.token_id, changed, z=logit, r=shape.penalty)
    for place, stage in enumerate(step.stages):
        if _FILTERS.issuperset(names[place + 1 :]):
            yield from _kept(step, own, place, config)
        if stage.name == "TopK" and _ORDERED.issuperset(names[:place]):
            yield filled(
                "top_k", own.token_id, n=own.rank + 1, k=int(setting(config, "top_k", stage.kept))
            )
    yield _softmax(step, own, shape, changed, setting(config, "bias", 0.0))


def _kept(
    step: Step, own: Candidate, place: int, config: Mapping[str, Any]
) -> Iterator[Line | None]:
    """Yield what top-p or min-p kept, given that nothing but filters comes after it."""
    stage = step.stages[place]
    left = [c for c in step.candidates if c.processed_logprob > -math.inf]
    # Filters spread what they remove over what they leave: this is the way back.
    share = math.prod(later.kept_mass for later in step.stages[place:])
    if stage.name == "TopP":
        last = step.stages[-1].name == "TopP" and len(left) == stage.kept > 1
        if not last:
            yield filled("top_p", None, m=stage.kept_mass, c=setting(config, "top_p", 1.0))
            return
        least = math.exp(left[-1].processed_logprob) * share
        limit = setting(config, "top_p", 1.0)
        # A token that was left for another reason, such as a least number to keep, is no last one.
        if stage.kept_mass - least < limit:
            operands = {"m": stage.kept_mass, "b": least, "c": limit}
            yield filled("top_p_last", left[-1].token_id, **operands)
    elif stage.name == "MinP" and left:
        most = math.exp(left[0].processed_logprob) * share
        yield filled("min_p", left[0].token_id, a=setting(config, "min_p", 0.0), b=most)


def _softmax(step: Step, own: Candidate, shape: _Shape, logit: float, added: float) -> Line | None:
    """Return the softmax over what is left; its sum is told by another token of the same step.

    Args:
        step: with its candidates.
        own: the candidate that was chosen.
        shape: what happens to logits.
        logit: its own, after the repetition penalty.
        added: to the logits of green tokens.
    """
    other = next((c for c in step.candidates if c.token_id != own.token_id), own)
    if other.processed_logprob == -math.inf:
        other = own
    bias = {c.token_id: _bias(step, c.token_id, added) for c in (own, other)}
    theirs = shape.penalised(other.token_id, other.raw_logprob + step.logsumexp)
    total = theirs / shape.temperature + bias[other.token_id] - other.processed_logprob
    mine = logit / shape.temperature + bias[own.token_id] - total
    summed = power(total)
    if summed is None or abs(mine - own.processed_logprob) > _CLOSE:
        return None
    p = math.exp(own.processed_logprob)
    if isinstance(step.detail, WatermarkDetail) and step.detail.is_green is not None:
        operands = {"z": logit, "t": shape.temperature, "d": bias[own.token_id], "s": summed}
        return filled("biased", own.token_id, p, **operands)
    return filled("tempered", own.token_id, p, z=logit, t=shape.temperature, s=summed)


def _bias(step: Step, token: int, added: float) -> float:
    """Return what a watermark by green lists put on a token's score."""
    detail = step.detail
    if not isinstance(detail, WatermarkDetail) or detail.is_green is None:
        return 0.0
    if token in step.emit:
        return detail.bias
    return added if token in detail.green_candidates else 0.0
