"""Bounds on a distribution of which only some probabilities are known. No torch."""

from __future__ import annotations

import math
from collections.abc import Sequence

_ROUNDING = 1e-6
"""Error of a sum of probabilities that come from float32 log-probabilities."""
_NATS_ROUNDING = 1e-5
"""Error in nats of an entropy or a divergence that is computed from them."""


def unseen_mass(seen: Sequence[float]) -> tuple[float, float]:
    """Return the least and the most probability of all tokens that are not in ``seen``.

    A sum above 1 shows by how much the reported numbers are rounded.
    """
    rest = 1 - math.fsum(seen)
    error = max(_ROUNDING, -rest)
    return max(0.0, rest - error), min(1.0, max(0.0, rest + error))


def entropy_bounds(seen: Sequence[float], cap: float, unseen_tokens: int) -> tuple[float, float]:
    """Return the least and the most entropy (nats) of a distribution that is partly known.

    The entropy is least if the unseen probability is on as few tokens as possible, and largest if
    it is spread evenly over all of them.

    Args:
        seen: the known probabilities.
        cap: largest probability that an unseen token can have.
        unseen_tokens: number of other tokens of the vocabulary, or more.
    """
    known = math.fsum(-p * math.log(p) for p in seen if p > 0)
    ends = unseen_mass(seen)
    least = min(_entropy_of_few(mass, min(cap, mass)) for mass in ends)
    low = max(0.0, known + least - _NATS_ROUNDING)
    most = max(_entropy_of_many(mass, unseen_tokens) for mass in ends)
    return low, known + most + _NATS_ROUNDING


def divergence_bounds(
    seen: Sequence[float],
    other: Sequence[float],
    other_rest: float,
    least_likely: Sequence[float],
    cap: float,
) -> tuple[float, float]:
    """Return the least and the most KL(distribution || other) in nats, where the other one is known.

    It is least if the unseen probability is spread as in the other distribution, and largest if it is
    on those tokens that the other one finds least likely.

    Args:
        seen: the known probabilities.
        other: natural logarithms of the same tokens' probabilities in the other distribution.
        other_rest: probability of all other tokens in the other distribution.
        least_likely: natural logarithms of those tokens' probabilities, ascending; as many as the
            unseen probability fills with ``cap`` each, or all.
        cap: largest probability that an unseen token can have.
    """
    known = math.fsum(p * (math.log(p) - q) for p, q in zip(seen, other, strict=True) if p > 0)
    low, high = unseen_mass(seen)
    # mass * log(mass / rest) is least at rest / e.
    mass = min(max(low, other_rest / math.e), high)
    least = mass * math.log(mass / other_rest) if mass > 0 and other_rest > 0 else 0.0
    most = max(_divergence_of_few(mass, cap, least_likely) for mass in (low, high))
    return max(0.0, known + least - _NATS_ROUNDING), known + most + _NATS_ROUNDING


def _divergence_of_few(mass: float, cap: float, logprobs: Sequence[float]) -> float:
    """Return the divergence of a mass on as many tokens of probability ``cap`` as it fills."""
    found = 0.0
    for logprob in logprobs:
        share = min(cap, mass)
        if share <= 0:
            break
        found += share * (math.log(share) - logprob)
        mass -= share
    return found


def _entropy_of_few(mass: float, cap: float) -> float:
    """Return the entropy of a mass on as many tokens of probability ``cap`` as it fills."""
    if mass <= 0 or cap <= 0:
        return 0.0
    full = math.floor(mass / cap)
    rest = max(0.0, mass - full * cap)
    return -full * cap * math.log(cap) - (rest * math.log(rest) if rest else 0.0)


def _entropy_of_many(mass: float, tokens: int) -> float:
    """Return the entropy of a mass that is spread evenly over tokens."""
    return mass * math.log(tokens / mass) if mass > 0 and tokens > 0 else 0.0
