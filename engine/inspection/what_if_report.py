"""The result of a what-if analysis of one step: candidates, filter effects and the token."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from engine.inspection.logits_cache import CACHED, RECORDED
from engine.inspection.step_ref import StepRef
from engine.inspection.what_if import (
    ChangedRun,
    SettingsChange,
    apply_change,
    decide_step,
    processor_device,
)
from engine.loops.recorder import (
    Observation,
    first_removal,
    round_decimals,
    round_significant,
    stage_statistics,
)
from engine.processors.scores import IMPOSSIBLE_SCORE

MAX_SURVIVORS = 8
"""Surviving candidates in a report; the new and the recorded token come on top."""
MAX_REMOVED = 2
"""Candidates in a report per processor, the most probable it removed."""


@dataclass(frozen=True)
class WhatIfCandidate:
    """A candidate of the step."""

    token_id: int
    raw: float
    """Probability in the model."""
    used: float
    """Probability after all processors; 0 if removed."""
    removed_by: str | None


@dataclass(frozen=True)
class FilterEffect:
    """The effect of one processor on the step.

    Attributes:
        name: display name.
        on: whether it is switched on; if not, the other fields keep their defaults.
        kept: tokens left after it.
        removed: tokens it removes.
        mass: probability that the remaining tokens had before it.
        entropy: nats after it.
        cut: smallest probability it keeps, measured before it; None if it removes nothing or does
            not cut at a minimum probability.
    """

    name: str
    on: bool
    kept: int = 0
    removed: int = 0
    mass: float = 0.0
    entropy: float = 0.0
    cut: float | None = None


@dataclass(frozen=True)
class WhatIfReport:
    """A step under changed settings.

    Attributes:
        token_id: the token it writes.
        recorded: the token it wrote in the recording.
        sample: whether the token is drawn; otherwise it is the most probable one.
        options: surviving candidates by descending probability, then removed ones, last processor
            first.
        rest_raw: model probability outside ``options``.
        rest_used: probability outside ``options`` after all processors.
        stages: processors in running order.
        entropy: nats of the model's own distribution.
        entropy_used: nats after all processors.
        mass: model probability of all surviving tokens.
        kept: number of surviving tokens.
        source: CACHED, RECOMPUTED or RECORDED.
        same_luck: False if this machine cannot draw the run's noise, or if the run's own settings
            do not give the recorded token here.
    """

    token_id: int
    recorded: int
    sample: bool
    options: tuple[WhatIfCandidate, ...]
    rest_raw: float
    rest_used: float
    stages: tuple[FilterEffect, ...]
    entropy: float
    entropy_used: float
    mass: float
    kept: int
    source: str
    same_luck: bool


def build_what_if_report(place: StepRef, changed: ChangedRun) -> WhatIfReport:
    """Decide a step under changed settings and report it.

    Args:
        place: the step.
        changed: the changed settings, built for this call because processors keep state.

    Raises:
        EngineError: the step's logits are unavailable, or a processor removes every token.
    """
    observation, token = decide_step(place, changed)
    row, recorded = place.row, place.step.emit[-1]
    one = select_row(observation, row)
    probs = one.logprobs.exp()
    numbers, final = stage_statistics(one, probs)
    used = final.exp() if one.stages else probs
    left = used[0] > 0
    options = _choose_candidates(one, probs[0], used[0], (token, recorded))
    # Recorded candidates are not the whole vocabulary, but the step's entropy was measured over it.
    entropy = place.step.entropy or 0.0
    if place.source != RECORDED:
        entropy = float(torch.special.entr(probs).sum())
    return WhatIfReport(
        token_id=token,
        recorded=recorded,
        sample=changed.sample,
        options=options,
        rest_raw=max(0.0, 1 - math.fsum(o.raw for o in options)),
        rest_used=max(0.0, 1 - math.fsum(o.used for o in options)),
        stages=_filter_effects(one, probs, numbers, changed),
        entropy=round_decimals(entropy),
        entropy_used=round_decimals(float(torch.special.entr(used).sum())),
        mass=round_significant(min(1.0, float(probs[0, left].sum()))),
        kept=int(left.sum()),
        source=place.source,
        same_luck=_is_draw_repeatable(place, changed),
    )


def _is_draw_repeatable(place: StepRef, changed: ChangedRun) -> bool:
    """Return True if the run's own settings give the step's recorded token here."""
    # Cached logits are the run's own to the last bit, so its settings give its token.
    if place.source == CACHED or not place.step.emit:
        return True
    # Another kind of device draws other noise from the same seed.
    if changed.sample and processor_device(place.run) != (place.run.header.model.device or "cpu"):
        return False
    return decide_step(place, apply_change(place.run, SettingsChange()))[1] == place.step.emit[-1]


def select_row(observation: Observation, row: int) -> Observation:
    """Return one row of an observation, on the CPU."""
    one = slice(row, row + 1)
    stages = [(name, scores[one].cpu()) for name, scores in observation.stages]
    return Observation(
        observation.logprobs[one].cpu(),
        observation.logsumexp[one].cpu(),
        observation.scores[one].cpu(),
        stages,
    )


def _choose_candidates(
    one: Observation, raw: torch.Tensor, used: torch.Tensor, first_ids: tuple[int, ...]
) -> tuple[WhatIfCandidate, ...]:
    """Select and order the candidates of the report."""
    best = used.topk(min(MAX_SURVIVORS, len(used))).indices
    # topk also returns removed tokens if fewer than MAX_SURVIVORS are left.
    ids = [*first_ids, *(i for i in best.tolist() if used[i] > 0)]
    removal_stage = first_removal(one, torch.arange(len(used))[None])[0]
    ids += likeliest_removed(removal_stage, raw)
    names = [name for name, _ in one.stages]
    listed = [
        (
            -int(removal_stage[i]) if removal_stage[i] >= 0 else -len(names) - 1,
            -float(used[i]),
            -float(raw[i]),
            i,
        )
        for i in dict.fromkeys(ids)
    ]
    return tuple(
        WhatIfCandidate(
            i,
            round_significant(float(raw[i])),
            round_significant(float(used[i])),
            None if removal_stage[i] < 0 else names[int(removal_stage[i])],
        )
        for *_, i in sorted(listed)
    )


def likeliest_removed(removal_stage: torch.Tensor, raw: torch.Tensor) -> list[int]:
    """Return the ids of the MAX_REMOVED most probable tokens that each stage removed.

    Args:
        removal_stage: (vocab,) index of the stage that removed a token, or -1.
        raw: (vocab,) probabilities.
    """
    ids: list[int] = []
    for stage in range(int(removal_stage.max()) + 1):
        removed = torch.where((removal_stage == stage) & (raw > 0), raw, -1.0)
        found = removed.topk(min(MAX_REMOVED, len(raw))).indices.tolist()
        ids += [i for i in found if removed[i] > 0]
    return ids


def _filter_effects(
    one: Observation, probs: torch.Tensor, numbers: Any, changed: ChangedRun
) -> tuple[FilterEffect, ...]:
    """Return the effect of every processor, switched-off ones included."""
    found: dict[str, FilterEffect] = {}
    before, there = probs, probs[0] > 0
    for i, (name, scores) in enumerate(one.stages):
        left = scores[0] > IMPOSSIBLE_SCORE
        removed = there & ~left
        kept = int(left.sum())
        found[name] = FilterEffect(
            name,
            True,
            kept,
            int(removed.sum()),
            round_significant(min(1.0, float(numbers["kept_mass"][0, i]))),
            round_decimals(float(numbers["stage_entropy"][0, i])),
            _min_kept_probability(before[0], left & (before[0] > 0), removed),
        )
        before = torch.softmax(scores.masked_fill(~left, -torch.inf), dim=-1)
        there = left
    return tuple(found.get(name, FilterEffect(name, False)) for name in changed.all)


def _min_kept_probability(
    before: torch.Tensor, left: torch.Tensor, removed: torch.Tensor
) -> float | None:
    """Return the smallest kept probability if every removed token had less, else None."""
    if not bool(removed.any()) or not bool(left.any()):
        return None
    least = float(before[left].min())
    return round_significant(least) if float(before[removed].max()) <= least else None
