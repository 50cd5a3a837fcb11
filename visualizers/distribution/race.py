"""Summary of the random draw: token shares, exponential race, and acceptance of drafted tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from engine.trace.details import BeamDetail, DraftDetail, find_draw
from engine.trace.records import Step, Trace
from visualizers.base import StepSummary
from visualizers.draft_timeline.summary import acceptance_ratio

MAX_SEGMENTS = 8
"""Number of tokens with their own segment in the strip of shares."""
MIN_SHARE = 0.01
"""Smallest share with its own segment, unless the token was drawn."""
MAX_RUNNERS = 10
_LEAD_SHARE = 0.15
"""Share of the line before the first arrival."""
_MAX_TICKS = 5
_MIN_ARRIVAL = 1e-300
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class DrawSummary:
    """Summarizes the random draw of each step; empty for steps without one.

    Values per step:

    - ``strip``: of a drafting round that ended with a draw, (token id, probability) of the tokens
      with their own segment; ``others``: total probability of the other tokens.
    - ``earliest_nodes``: arrivals in record order, as positions in [0, 1] on a logarithmic axis.
    - ``ticks``: (position, label) on that axis.
    - ``judged``: for each drafted token that was judged at random, the largest u that accepts it.
    """

    def __init__(self, run: Trace) -> None:
        self.weight: float | None = run.config.get("assistant_ensemble_weight")
        self.sample = bool(run.config.get("do_sample", False))

    def add(self, step: Step) -> StepSummary:
        """Add a step and return its values."""
        detail = step.detail
        if isinstance(detail, DraftDetail):
            return self._summarize_drafted(step, detail)
        if isinstance(detail, BeamDetail):
            return _arrival_line([node.arrival or 0.0 for node in earliest_nodes(detail)])
        race = find_draw(step.detail)
        if race is None:
            return {}
        arrivals = [racer.arrival for racer in race.racers]
        return _arrival_line(arrivals)

    def _summarize_drafted(self, step: Step, detail: DraftDetail) -> StepSummary:
        tokens = [t for t in detail.tokens if t.u is not None and t.status != "unverified"]
        judged = [acceptance_ratio(token, self.weight) for token in tokens]
        if not judged and not self.sample:
            return {}
        strip = _strip_segments(detail.residual, step.emit[-1:]) if detail.residual else {}
        return {"judged": judged, **strip}


def earliest_nodes(detail: BeamDetail) -> list[Any]:
    """Return the nodes with the earliest arrivals, at most RUNNERS; empty without a draw."""
    drawn = [node for node in detail.pool if node.arrival]
    return sorted(drawn, key=lambda node: node.arrival or 0.0)[:MAX_RUNNERS]


def _strip_segments(pairs: Sequence[tuple[int, float]], drawn: Sequence[int]) -> dict[str, Any]:
    """Return the segments of a strip: the largest shares, the drawn token, and all others.

    Args:
        pairs: (token id, probability), most probable first.
        drawn: the drawn token id, or empty.
    """
    own = [
        (token_id, p)
        for place, (token_id, p) in enumerate(pairs)
        if token_id in drawn or (place < MAX_SEGMENTS and p >= MIN_SHARE)
    ]
    return {"strip": own, "others": max(0.0, 1 - math.fsum(p for _, p in own))}


def _arrival_line(arrivals: Sequence[float]) -> StepSummary:
    """Return the arrivals as positions on a logarithmic axis, which separates the earliest."""
    if not arrivals:
        return {}
    known = [math.log10(max(a, _MIN_ARRIVAL)) for a in arrivals]
    first, last = min(known), max(known)
    wide = max(last - first, 0.3)
    begin = first - _LEAD_SHARE * wide
    places = [round((x - begin) / (wide * (1 + _LEAD_SHARE)), 4) for x in known]
    ticks = [
        [round((x - begin) / (wide * (1 + _LEAD_SHARE)), 4), text]
        for x, text in _axis_ticks(begin, begin + wide * (1 + _LEAD_SHARE))
    ]
    return {"runners": places, "ticks": ticks}


def _axis_ticks(begin: float, end: float) -> list[tuple[float, str]]:
    """Return round numbers between two powers of ten, as (exponent, label)."""
    low, high = math.ceil(begin), math.floor(end)
    apart = max(1, math.ceil((high - low + 1) / _MAX_TICKS))
    found = [(float(k), _format_power(k)) for k in range(low, high + 1, apart)]
    if len(found) > 1:
        return found
    steps = [(k + math.log10(m), f"{m * 10.0**k:g}") for k in (low - 1, low) for m in (1, 2, 3, 5)]
    return [(x, text) for x, text in steps if begin <= x <= end]


def _format_power(k: int) -> str:
    return f"{10.0**k:g}" if -4 <= k <= 4 else f"10{str(k).translate(_SUPERSCRIPT)}"
