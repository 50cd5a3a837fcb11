"""The finished hypotheses of a beam group, as in the searches that left transformers (4.55.4)."""

from __future__ import annotations

from collections.abc import Iterable

from engine.loops.beams.step_record import FinishedBeam
from engine.models.model_types import GenerationConfig


class HypothesisHeap:
    """The best ``size`` finished hypotheses, and the test whether an open one can still join.

    Args:
        size: beams of the group.
        config: length_penalty, early_stopping and max_length as generate() prepared them.
        prompt_length: ids before the first new token.
    """

    def __init__(self, size: int, config: GenerationConfig, prompt_length: int) -> None:
        self.size, self.length_penalty = size, config.length_penalty
        self.early_stopping = config.early_stopping
        self.longest = config.max_length - prompt_length
        self.members: list[FinishedBeam] = []

    @property
    def full(self) -> bool:
        """Whether it holds ``size`` hypotheses."""
        return len(self.members) >= self.size

    @property
    def worst(self) -> float:
        """The lowest score; the heap must not be empty."""
        return min(member.score for member in self.members)

    def score(self, sum_logprobs: float, length: int) -> float:
        """Return sum_logprobs / length ** length_penalty."""
        return sum_logprobs / length**self.length_penalty

    def add(self, hypothesis: FinishedBeam) -> bool:
        """Add a hypothesis if its score is high enough; return whether it was added."""
        # An equal score does not displace a member, as in transformers 4.55.4.
        if self.full and hypothesis.score <= self.worst:
            return False
        self.members.append(hypothesis)
        if len(self.members) > self.size:
            self.members.remove(min(self.members, key=lambda member: member.score))
        return True

    def reachable(self, best_sum: float, length: int) -> float:
        """Return the best score that an open beam of this sum can reach."""
        longest = self.early_stopping not in (True, False) and self.length_penalty > 0
        return self.score(best_sum, self.longest if longest else length)

    def is_done(self, best_sum: float, length: int) -> bool:
        """Return whether no open beam can improve the heap."""
        if not self.full:
            return False
        # The best sum of the whole pool counts, ended candidates included, as in 4.55.4.
        return self.early_stopping is True or self.worst >= self.reachable(best_sum, length)


def sort_best_first(heaps: Iterable[HypothesisHeap]) -> list[FinishedBeam]:
    """Return all members, best first."""
    members = [member for heap in heaps for member in heap.members]
    # The old scorer returns the later of two equal scores first, hence sort and reverse.
    return sorted(members, key=lambda member: member.score)[::-1]
