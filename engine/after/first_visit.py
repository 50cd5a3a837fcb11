"""What a first visit should answer about every strategy; its numbers are those of recorded runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from engine.after import gallery
from engine.reading.watermark_statistics import z_score
from engine.strategies.base import Strategy
from engine.trace.details import BeamDetail, WatermarkDetail
from engine.trace.records import Trace

_QUOTED = re.compile(r"\{(\w+)-(\d)\.(\w+)\}")
_WORDS: dict[str, Callable[[float], str]] = {
    "rep_3": lambda value: f"{value:.0%}".replace("%", " %"),
    "perplexity": lambda value: f"{value:.3g}",
    "tokens_per_forward": lambda value: f"{value:.1f}",
    "score": lambda value: f"{value:.3f}".replace("-", "−"),
    "greedy_score": lambda value: f"{value:.3f}".replace("-", "−"),
    "first_words": lambda value: f"{value:.0f}",
    "outputs": lambda value: f"{value:.0f}",
    "z": lambda value: f"{value:.1f}".replace("-", "−"),
}
"""Number of a recorded run -> how it is written."""


@dataclass(frozen=True)
class Answers:
    """Three sentences or a few; what they quote has been filled in."""

    chooses: str
    """How the strategy chooses."""
    helps: str
    """When it helps, and when it hurts."""
    turns: str
    """What its main parameter does."""


def answers(strategy: Strategy) -> Answers:
    """Return what the page and docs/first_visit.md say of a strategy."""
    return Answers(strategy.summary, filled(strategy.helps), filled(strategy.turns))


def filled(text: str) -> str:
    """Return a text with ``{strategy-1.number}`` replaced by that number of the recorded run.

    Raises:
        KeyError: there is no such run or number.
    """
    return _QUOTED.sub(lambda m: _WORDS[m[3]](numbers(f"{m[1]}-{m[2]}.json.gz")[m[3]]), text)


@cache
def numbers(file: str) -> dict[str, float]:
    """Return the numbers of a recorded run that a sentence may quote.

    Args:
        file: of the gallery.

    Returns:
        The run's metrics; ``score`` and ``greedy_score`` (mean log-probability, length-penalised,
        of the best text and of the greedy path), ``outputs`` and ``first_words`` (how many texts,
        how many different first tokens), ``z`` (of the mark).
    """
    trace = gallery.open_entry(file)
    firsts = {output.token_ids[0] for output in trace.outputs}
    found = {**trace.metrics, "outputs": len(trace.outputs), "first_words": len(firsts)}
    return found | _of_the_end(trace)


def _of_the_end(trace: Trace) -> dict[str, float]:
    detail = trace.steps[-1].detail
    if isinstance(detail, BeamDetail) and detail.greedy is not None:
        best = trace.outputs[0].score
        return {"score": best or 0.0, "greedy_score": detail.greedy.score}
    if isinstance(detail, WatermarkDetail):
        marks = [s.detail for s in trace.steps if isinstance(s.detail, WatermarkDetail)]
        counted = [bool(mark.is_green) for mark in marks if mark.scored and not mark.g_values]
        return {"z": z_score(sum(counted), len(counted), detail.expected) or 0.0}
    return {}
