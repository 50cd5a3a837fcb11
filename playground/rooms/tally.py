"""What a class has bet, counted; no answer is told with who gave it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import Any

from engine.lessons.lesson import Bet
from engine.lessons.marking import Key, crowd_perplexity, is_right

_MOST_BINS = 10
_MOST_ORDERS = 6


def tally(bet: Bet, key: Key, answers: Sequence[Any]) -> dict[str, Any]:
    """Return how often what was answered; it does not say what is right.

    Args:
        bet: what was asked.
        key: of the bet, for what there was to choose from.
        answers: as ``marking.checked_answer`` returns them.

    Returns:
        ``kind`` and ``votes``; of a number ``bins``, each ``[from, to, votes]`` (both ends the same where a bin is
        one stop of the slider), and ``median``; of an order ``orders``, each ``[places, votes]``, the most frequent
        ones first, and ``others``, the votes of all the rest; of all other kinds that are counted ``counts``, by place.
    """
    found: dict[str, Any] = {"kind": bet.kind, "votes": len(answers)}
    if bet.kind == "number":
        return found | {
            "bins": _bins(bet, answers),
            "median": median(answers) if answers else None,
        }
    if bet.kind == "order":
        return found | _orders(answers)
    if bet.kind == "text":
        return found
    places = 2 if bet.kind == "truth" else len(key.options)
    counted = Counter(answers)
    return found | {"counts": [counted[place] for place in range(places)]}


def outcome(bet: Bet, key: Key, answers: Sequence[Any]) -> dict[str, Any]:
    """Return ``right``, how many were, and the crowd's ``perplexity``; each None where there is no such thing."""
    marked = [is_right(bet, key, answer) for answer in answers]
    return {
        "right": None if bet.kind == "text" else marked.count(True),
        "perplexity": crowd_perplexity(key, list(answers)) if bet.kind == "token" else None,
    }


def _bins(bet: Bet, answers: Sequence[float]) -> list[list[float]]:
    """Return the histogram of numbers; a slider of few stops has a bin for each."""
    stops = round((bet.high - bet.low) / bet.by) + 1
    if stops <= _MOST_BINS + 1:
        counted = Counter(min(round((x - bet.low) / bet.by), stops - 1) for x in answers)
        return [[*[bet.low + i * bet.by] * 2, counted[i]] for i in range(stops)]
    wide = (bet.high - bet.low) / _MOST_BINS
    counted = Counter(min(int((x - bet.low) / wide), _MOST_BINS - 1) for x in answers)
    return [[bet.low + i * wide, bet.low + (i + 1) * wide, counted[i]] for i in range(_MOST_BINS)]


def _orders(answers: Sequence[list[int]]) -> dict[str, Any]:
    frequent = Counter(tuple(answer) for answer in answers).most_common(_MOST_ORDERS)
    told = [[list(places), votes] for places, votes in frequent]
    return {"orders": told, "others": len(answers) - sum(votes for _, votes in told)}
