"""The logits processors of one pass, and reruns of them with a change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from engine.inspection.rerun import ObservedPass, copy_processor
from engine.loops.dola import LayerContrast
from engine.loops.recorder import display_name, run_processors
from engine.processors import FILTERS
from engine.processors.scores import is_removed

MIN_BIAS = 1e-4
"""Resolution of a bias: four decimals."""
MAX_BIAS = 999.0


@dataclass(frozen=True)
class FilterLink:
    """One processor of a pass.

    Attributes:
        name: display name in the recording.
        processor: a copy with the state it had before the pass.
        before: (rows, vocab) scores it received.
        after: (rows, vocab) scores it returned.
    """

    name: str
    processor: Any
    before: torch.Tensor
    after: torch.Tensor


class FilterChain:
    """The processors of a pass with their inputs and outputs.

    Args:
        view: the pass.
        row: the row in question.
    """

    def __init__(self, view: ObservedPass, row: int) -> None:
        self.row, self.ids, self.logits = row, view.input_ids, view.logits
        befores = (view.logits, *view.stages)
        self.links = tuple(
            FilterLink(display_name(processor), processor, before, after)
            for processor, before, after in zip(view.processors, befores, view.stages, strict=False)
        )
        # The output of these needs a pass of the model and depends on nothing that can be changed.
        fixed = (
            _is_layer_contrast(link)
            or (link.name in FILTERS and bool(FILTERS[link.name].needs_rerun))
            for link in self.links
        )
        self.start = next((i for i, is_fixed in enumerate(fixed) if not is_fixed), len(self.links))

    @property
    def text(self) -> list[int]:
        """The ids of the row."""
        return self.ids[self.row].tolist()

    @property
    def scores(self) -> torch.Tensor:
        """(rows, vocab) scores after all processors."""
        return self.links[-1].after if self.links else self.logits

    @property
    def changeable_scores(self) -> torch.Tensor:
        """(rows, vocab) scores before the first processor that can be rerun."""
        return self.links[self.start].before if self.start < len(self.links) else self.scores

    def run_processors(
        self, scores: torch.Tensor, start: int, instead: Sequence[Any] | None = None
    ) -> torch.Tensor:
        """Return (rows, vocab) scores after the processors from ``start`` on.

        Args:
            scores: (rows, vocab), not modified.
            start: first processor that runs.
            instead: replacements, one per processor; None skips a processor.
        """
        own = [link.processor for link in self.links] if instead is None else instead
        # Copies, since processors may keep state.
        copies = [copy_processor(one) for one in own[start:] if one is not None]
        return run_processors(copies, self.ids, scores)[0]

    def scores_with_bias(self, token_id: int, bias: float) -> torch.Tensor:
        """Return (rows, vocab) final scores with a bias on one token of the row."""
        scores = self.changeable_scores.clone()
        scores[self.row, token_id] += bias
        return self.run_processors(scores, self.start)

    def scores_without(self, place: int) -> torch.Tensor:
        """Return (rows, vocab) final scores without one processor."""
        own: list[Any] = [link.processor for link in self.links]
        own[place] = None
        return self.run_processors(self.links[place].before, place, own)

    def removal_index(self, token_id: int) -> int | None:
        """Return the index of the processor that removed a token, None if it survived."""
        for place, link in enumerate(self.links):
            if is_removed(link.after, self.row, token_id):
                return place
        return None


def _is_layer_contrast(link: FilterLink) -> bool:
    return isinstance(link.processor, LayerContrast)


def find_smallest_bias(holds: Callable[[float], bool], begin: float) -> float | None:
    """Return about the smallest bias, to four decimals, that satisfies a condition.

    Args:
        holds: tests a bias. It should stay true for larger ones; otherwise the result is any bias
            that satisfies it.
        begin: a first guess above 0.

    Returns:
        The bias, or None if none up to ``MAX_BIAS`` was found.
    """
    high = max(begin, MIN_BIAS)
    while not holds(high):
        high *= 2
        if high > MAX_BIAS:
            return None
    low = 0.0
    while high - low > MIN_BIAS / 2:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    # Rounding may land just below the bound.
    for more in (1, 2, 10):
        value = round(high + more * MIN_BIAS, 4)
        if holds(value):
            return value
    return None


def build_local_bias(
    text: Sequence[int],
    token_id: int,
    bias: float,
    known: Iterable[tuple[Iterable[int], float]] | None = (),
) -> list[Any]:
    """Return a ``sequence_bias`` value that biases a token after this text only.

    Args:
        text: the ids before it.
        token_id: the token.
        bias: added to its logit.
        known: the run's own biases, which are kept.
    """
    # An entry of sequence_bias has at most 64 ids.
    ids = [*text[-63:], token_id]
    entries = [[list(own), value] for own, value in known or ()]
    same = next((entry for entry in entries if entry[0] == ids), None)
    if same is not None:
        same[1] += bias
        return entries
    return [*entries, [ids, bias]]
