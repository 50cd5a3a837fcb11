"""The confidence below which a draft ends: as given, or tuned to the rounds so far."""

from __future__ import annotations

import math
from itertools import groupby
from operator import itemgetter

import torch

CONSTANT, ADAPTIVE = CONFIDENCE_SCHEDULES = ("constant", "adaptive")
_MIN_TOKENS = 6
_MISSED_COST = 3
"""Cost of a draft that ends too early, relative to one that goes on too long, as in transformers."""


class ConfidenceThreshold:
    """Ends a draft after a token that the draft model gives too little probability.

    Args:
        value: the threshold; 0 ends no draft.
        adaptive: tune it after every round, as transformers does where scikit-learn is installed.

    Attributes:
        value: the threshold of the next round.
        confidences: adaptive: probability of every judged token of the finished rounds, then those
            of the current draft.
    """

    def __init__(self, value: float, *, adaptive: bool = False) -> None:
        self.value = value
        self.adaptive = adaptive and value > 0
        self.confidences: list[float] = []
        self._accepted: list[bool] = []

    def add_token(self, scores: torch.Tensor, token: int) -> float:
        """Return the probability of a drafted token of (1, vocab) scores; 1 without a threshold."""
        if not self.value:
            return 1.0
        confidence = float(torch.softmax(scores, dim=-1)[0, token])
        if self.adaptive:
            self.confidences.append(confidence)
        return confidence

    def update(self, accepted: int) -> None:
        """Tune the threshold to a round in which the first ``accepted`` tokens were accepted."""
        if not self.adaptive:
            return
        self._accepted += [True] * accepted
        if len(self.confidences) > len(self._accepted):
            self._accepted.append(False)
        # Nobody judged the tokens after a rejected one.
        del self.confidences[len(self._accepted) :]
        if len(self.confidences) >= _MIN_TOKENS and len(set(self._accepted)) == 2:
            self.value = find_best_threshold(self.confidences, self._accepted)


def find_best_threshold(confidences: list[float], accepted: list[bool]) -> float:
    """Return the confidence at which ending drafts would have cost least.

    Args:
        confidences: probabilities of drafted tokens.
        accepted: whether each of them was accepted; both outcomes occur.

    Returns:
        The threshold with the smallest share of rejected tokens at or above it, plus three times
        the share of accepted tokens below it; the highest of equal ones.
    """
    right = sum(accepted)
    wrong = len(accepted) - right
    best, least = 0.0, math.inf
    found = kept = 0
    judged = sorted(zip(confidences, accepted, strict=True), reverse=True)
    for confidence, group in groupby(judged, key=itemgetter(0)):
        outcomes = [good for _, good in group]
        found, kept = found + sum(outcomes), kept + len(outcomes)
        # False positive rate + 3 * false negative rate, the cost that transformers minimises.
        cost = (kept - found) / wrong + _MISSED_COST * (1 - found / right)
        if cost < least:
            best, least = confidence, cost
    return best
