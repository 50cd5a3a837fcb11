"""Counts of a class's bets, without the participants' ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import Any

from engine.lessons.answer_key import AnswerKey, crowd_perplexity, is_right
from engine.lessons.lesson import Bet

_MAX_BINS = 10
_MAX_ORDERS = 6


def tally_answers(bet: Bet, key: AnswerKey, answers: Sequence[Any]) -> dict[str, Any]:
    """Return the counts of the answers, without the right answer.

    Args:
        bet: The question.
        key: Its answer key, which lists the options.
        answers: Answers as returned by ``marking.checked_answer``.

    Returns:
        ``kind`` and ``votes``, the number of answers. For a number also ``bins``, each ``[from, to,
        votes]`` (equal ends if a bin is one slider stop), and ``median``. For an order also
        ``orders``, each ``[places, votes]``, most frequent first, and ``others``, the votes of the
        rest. For other kinds except text also ``counts``, by option.
    """
    found: dict[str, Any] = {"kind": bet.kind, "votes": len(answers)}
    if bet.kind == "number":
        return found | {
            "bins": _histogram(bet, answers),
            "median": median(answers) if answers else None,
        }
    if bet.kind == "order":
        return found | _count_orders(answers)
    if bet.kind == "text":
        return found
    places = 2 if bet.kind == "truth" else len(key.options)
    counted = Counter(answers)
    return found | {"counts": [counted[place] for place in range(places)]}


def score_answers(bet: Bet, key: AnswerKey, answers: Sequence[Any]) -> dict[str, Any]:
    """Return ``right``, the number of right answers, and the crowd's ``perplexity``.

    ``right`` is None for a text bet, ``perplexity`` for all bets except on a token.
    """
    marked = [is_right(bet, key, answer) for answer in answers]
    return {
        "right": None if bet.kind == "text" else marked.count(True),
        "perplexity": crowd_perplexity(key, list(answers)) if bet.kind == "token" else None,
    }


def _histogram(bet: Bet, answers: Sequence[float]) -> list[list[float]]:
    """Return the histogram of numbers; a slider with few stops has one bin for each."""
    stops = round((bet.high - bet.low) / bet.by) + 1
    if stops <= _MAX_BINS + 1:
        counted = Counter(min(round((x - bet.low) / bet.by), stops - 1) for x in answers)
        return [[*[bet.low + i * bet.by] * 2, counted[i]] for i in range(stops)]
    wide = (bet.high - bet.low) / _MAX_BINS
    counted = Counter(min(int((x - bet.low) / wide), _MAX_BINS - 1) for x in answers)
    return [[bet.low + i * wide, bet.low + (i + 1) * wide, counted[i]] for i in range(_MAX_BINS)]


def _count_orders(answers: Sequence[list[int]]) -> dict[str, Any]:
    frequent = Counter(tuple(answer) for answer in answers).most_common(_MAX_ORDERS)
    told = [[list(places), votes] for places, votes in frequent]
    return {"orders": told, "others": len(answers) - sum(votes for _, votes in told)}
