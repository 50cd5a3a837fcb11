"""What a first visit should answer about every strategy; its figures are those of recorded runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from engine.after import gallery
from engine.strategies.base import Strategy

_QUOTED = re.compile(r"\{(\w+-\d)\.(\w+)\}")
_SENTENCES = re.compile(r"(?<=\.) (?=[A-Z{])")


def _score(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")


_WORDS: dict[str, Callable[[float], str]] = {
    "rep_3": lambda value: f"{value:.0%}".replace("%", " %"),
    "perplexity": lambda value: f"{value:.3g}",
    "tokens_per_forward": lambda value: f"{value:.1f}",
    "score": _score,
    "greedy_score": _score,
    "first_words": str,
    "outputs": str,
    "z": lambda value: f"{value:.1f}".replace("-", "−"),
}
"""Figure of a recorded run -> how it is written."""


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
    figures = {entry.name: entry.figures for entry in gallery.entries()}
    told = (filled(text, figures) for text in (strategy.helps, strategy.turns))
    return Answers(strategy.summary, *told)


def filled(text: str, figures: dict[str, dict[str, float]]) -> str:
    """Return a text with ``{strategy-1.figure}`` replaced by that figure of the recorded run.

    A sentence that quotes a run or a figure that is not known is left out.

    Args:
        text: sentences.
        figures: name of a recorded run -> its figures, see ``engine.reading.quoted``.
    """

    def known(sentence: str) -> bool:
        return all(name in figures.get(run, {}) for run, name in _QUOTED.findall(sentence))

    kept = " ".join(sentence for sentence in _SENTENCES.split(text) if known(sentence))
    return _QUOTED.sub(lambda m: _WORDS[m[2]](figures[m[1]][m[2]]), kept)
