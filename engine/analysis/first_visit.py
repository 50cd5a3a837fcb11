"""Three answers about every strategy for a first visit, with figures of recorded runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from engine.analysis import gallery
from engine.strategies.base import Strategy

_FIGURE_QUOTE = re.compile(r"\{(\w+-\d)\.(\w+)\}")
_SENTENCE_BREAK = re.compile(r"(?<=\.) (?=[A-Z{])")


def _format_score(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")


_FIGURE_FORMATS: dict[str, Callable[[float], str]] = {
    "rep_3": lambda value: f"{value:.0%}".replace("%", " %"),
    "perplexity": lambda value: f"{value:.3g}",
    "tokens_per_forward": lambda value: f"{value:.1f}",
    "score": _format_score,
    "greedy_score": _format_score,
    "first_words": str,
    "outputs": str,
    "z": lambda value: f"{value:.1f}".replace("-", "−"),
}
"""Name of a figure -> function that formats it."""


@dataclass(frozen=True)
class StrategyAnswers:
    """A few sentences about a strategy, with their figures filled in."""

    chooses: str
    """How the strategy chooses a token."""
    helps: str
    """When it helps, and when it hurts."""
    turns: str
    """The effect of its main parameter."""


def strategy_answers(strategy: Strategy) -> StrategyAnswers:
    """Return the answers that the page and docs/first_visit.md show for a strategy."""
    figures = {entry.name: entry.figures for entry in gallery.list_entries()}
    told = (fill_figures(text, figures) for text in (strategy.helps, strategy.turns))
    return StrategyAnswers(strategy.summary, *told)


def fill_figures(text: str, figures: dict[str, dict[str, float]]) -> str:
    """Return a text with every ``{strategy-1.figure}`` replaced by that figure of the recorded run.

    A sentence that quotes an unknown run or figure is dropped.

    Args:
        text: one or more sentences.
        figures: name of a recorded run -> its figures, see ``engine.statistics.run_figures``.
    """

    def known(sentence: str) -> bool:
        return all(name in figures.get(run, {}) for run, name in _FIGURE_QUOTE.findall(sentence))

    kept = " ".join(sentence for sentence in _SENTENCE_BREAK.split(text) if known(sentence))
    return _FIGURE_QUOTE.sub(lambda m: _FIGURE_FORMATS[m[2]](figures[m[1]][m[2]]), kept)
