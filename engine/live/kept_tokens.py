"""Which tokens the filters of sampling keep, where only the most probable ones are known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engine.endpoints.dialects import SamplerValues
from engine.statistics.unseen_mass import unseen_mass


@dataclass(frozen=True, slots=True)
class KeptTokens:
    """The listed tokens after the filters.

    Attributes:
        probabilities: of the kept tokens, most probable first; they sum to 1.
        removed_by: name of the filter that removed each further token.
        error: largest total variation distance from the distribution over the whole vocabulary.
    """

    probabilities: tuple[float, ...]
    removed_by: tuple[str, ...]
    error: float


def filter_listed(logprobs: Sequence[float], values: SamplerValues, vocab_size: int) -> KeptTokens:
    """Apply temperature, top-k, top-p and min-p, in this order, to the listed tokens.

    An unlisted token is at most as probable as the last listed one. All bounds follow from that.

    Args:
        logprobs: the model's log-probabilities of the most probable tokens, largest first.
        values: the sampler; its temperature is above 0.
        vocab_size: number of tokens of the vocabulary, or more.
    """
    return _Filtering(logprobs, values, vocab_size).run()


class _Filtering:
    """Weights are probabilities after the temperature, relative to that of the first token."""

    def __init__(self, logprobs: Sequence[float], values: SamplerValues, vocab_size: int) -> None:
        self.values = values
        exponent = 1 / values.temperature
        self.weights = [math.exp(exponent * (logprob - logprobs[0])) for logprob in logprobs]
        self.unlisted = vocab_size - len(logprobs)
        self.low, self.high = _unlisted_weight(logprobs, exponent, self.unlisted)
        self.kept = self.surely_kept = len(logprobs)
        self.names: list[str] = []

    def run(self) -> KeptTokens:
        """Return the kept tokens."""
        self._top_k()
        self._top_p()
        self._min_p()
        kept = self.weights[: self.kept]
        total = math.fsum(kept)
        sure = math.fsum(self.weights[: self.surely_kept])
        error = max(self.high / (total + self.high), (total - sure) / total)
        removed = tuple(reversed(self.names))
        return KeptTokens(tuple(weight / total for weight in kept), removed, error)

    def _cut(self, kept: int, name: str) -> None:
        """Keep the first tokens; all unlisted ones are removed as well if a listed one is."""
        self.names += [name] * (self.kept - kept)
        if kept < self.kept:
            self.low = self.high = 0.0
        self.kept = kept
        self.surely_kept = min(self.surely_kept, kept)

    def _top_k(self) -> None:
        k = self.values.top_k
        if k == 0:
            return
        if k <= len(self.weights):
            self._cut(k, "TopK")
            self.low = self.high = 0.0
            return
        left = k - len(self.weights)
        self.high = min(self.high, left * self.weights[-1])
        # The largest of the unlisted tokens have at least their number's share of the weight.
        self.low = min(self.low * min(1.0, left / max(self.unlisted, 1)), self.high)

    def _top_p(self) -> None:
        share = self.values.top_p
        if share == 1:
            return
        listed = math.fsum(self.weights[: self.kept])
        wanted = share * (listed + self.high)
        kept, sure = self._reach(wanted), self._reach(share * (listed + self.low))
        # The token that crosses the line stays, so unlisted ones are kept only below it.
        unlisted = min(self.high, max(0.0, wanted - listed + self.weights[-1]))
        self._cut(kept, "TopP")
        self.surely_kept = min(self.surely_kept, sure)
        self.low, self.high = 0.0, unlisted if listed < wanted else 0.0

    def _reach(self, wanted: float) -> int:
        """Return how many of the kept tokens it takes to reach a weight; at least 1."""
        mass = 0.0
        for at, weight in enumerate(self.weights[: self.kept]):
            if at and mass >= wanted:
                return at
            mass += weight
        return self.kept

    def _min_p(self) -> None:
        # All weights are relative to the most probable token, as min-p is.
        least = self.values.min_p
        if least == 0:
            return
        self._cut(max(1, sum(weight >= least for weight in self.weights[: self.kept])), "MinP")
        if self.weights[-1] < least:
            self.low = self.high = 0.0


def _unlisted_weight(
    logprobs: Sequence[float], exponent: float, others: int
) -> tuple[float, float]:
    """Return the least and the most weight of all unlisted tokens together.

    The sum of powers of probabilities is extreme if they are all equal, or as unequal as they can be.
    """
    cap = math.exp(logprobs[-1])
    low, high = unseen_mass([math.exp(logprob) for logprob in logprobs])
    if others <= 0 or cap == 0:
        return 0.0, 0.0
    first = math.exp(logprobs[0])

    def weight(probability: float) -> float:
        return (probability / first) ** exponent if probability > 0 else 0.0

    def unequal(mass: float) -> float:
        full = min(others, math.floor(mass / cap))
        return full * weight(cap) + weight(max(0.0, mass - full * cap))

    def equal(mass: float) -> float:
        return others * weight(mass / others)

    return min(unequal(low), equal(low)), max(unequal(high), equal(high))
