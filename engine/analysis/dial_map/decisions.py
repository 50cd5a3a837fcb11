"""Decides a step for many values of a dial at once, with transformers' own processors.

A dial's processor gets a column of values where it expects a number, so that its float32
arithmetic is that of a real run. The processors before it see one text at a time, as in a run.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# torch does not say what Tensor.tolist() returns.
from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from engine.analysis.dial_map.dials import attribute_of, processor_name
from engine.loops.recorder import display_name, run_processors
from engine.loops.tolerance import find_uncertain_rows

_MAX_ELEMENTS = 2**19
"""Scores per batch of decisions: larger tensors are slower, as they leave the processor's cache."""


class TopPColumn:
    """A column of top_p values: ``1 - top_p`` is rounded to float32 once, as for a number."""

    def __init__(self, column: torch.Tensor) -> None:
        self.column = column

    def __rsub__(self, other: Any) -> torch.Tensor:
        column = self.column if isinstance(other, int) else self.column[:, 0]
        return (other - column).float()


class TopKColumn:
    """TopKLogitsWarper with a number of tokens for every row."""

    def __init__(self, counts: torch.Tensor) -> None:
        self.counts = counts

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return (rows, vocab) scores, -inf where a token is removed."""
        counts = self.counts.clamp(max=scores.shape[-1])
        best = scores.topk(int(counts.max())).values
        return scores.masked_fill(scores < best.gather(1, counts[:, None] - 1), -torch.inf)


TopKColumn.__name__ = "TopKLogitsWarper"  # processors are known by their names


def with_column(processor: Any, dial: str, values: Sequence[float]) -> Any:
    """Return the processor of a dial with a value for every row."""
    if dial == "top_k":
        return TopKColumn(torch.tensor(values, dtype=torch.long))
    exact = torch.tensor(values, dtype=torch.float64)[:, None]
    column: Any = exact.float()
    if dial == "top_p":
        column = TopPColumn(exact)
    elif dial in ("eta_cutoff", "top_h", "top_n_sigma"):
        column = column[:, 0]  # they add the second dimension themselves
    own = copy.copy(processor)
    setattr(own, attribute_of(dial), column)
    return own


@dataclass
class TextScores:
    """What decides one step of all texts of a map.

    Attributes:
        ids: (texts, length) prompt and text so far.
        logits: (texts, vocab) float32.
        stages: name and (texts, vocab) output of each processor before the first dial's.
        noise: (1, vocab) noise of the draw, the same for every text.
        margin: nats by which logits may differ from those of a run; 0 if they are exact.
    """

    ids: torch.Tensor
    logits: torch.Tensor
    stages: list[tuple[str, torch.Tensor]]
    noise: torch.Tensor
    margin: float


class Decider:
    """Decides tokens for pairs of a text and a value of the dial.

    Args:
        processors: of the run, in order; those of the dials are among them.
        dials: the parameters, one or two.

    Attributes:
        processors: in order, with the numbers of a run.
        count: decisions so far.
    """

    def __init__(self, processors: Sequence[Any], dials: Sequence[str]) -> None:
        self.processors, self.dials, self.count = list(processors), tuple(dials), 0
        names = [display_name(one) for one in processors]
        self._places = [names.index(processor_name(dial)) for dial in dials]
        self._place = min(self._places)
        for one in processors:
            if getattr(one, "prompt_ignore_length", None) is not None:
                one.prompt_ignore_length = None  # a count per row; the texts have no padding

    def prepare_step(
        self, ids: torch.Tensor, logits: torch.Tensor, noise: torch.Tensor, margin: float
    ) -> TextScores:
        """Run the processors before the first dial's on each text; see ``TextScores``."""
        step = TextScores(ids, logits, [], noise, margin)
        rows = [self._fixed_stages(ids[i : i + 1], logits[i : i + 1]) for i in range(len(ids))]
        for same in zip(*rows, strict=True):
            step.stages.append((same[0][0], torch.cat([scores for _, scores in same])))
        return step

    def replace_row(self, step: TextScores, row: int, logits: torch.Tensor) -> None:
        """Put the (1, vocab) logits of a pass alone in place of a text's."""
        step.logits[row] = logits[0]
        stages = self._fixed_stages(step.ids[row : row + 1], logits)
        for (_, whole), (_, own) in zip(step.stages, stages, strict=True):
            whole[row] = own[0]

    def _fixed_stages(
        self, ids: torch.Tensor, logits: torch.Tensor
    ) -> list[tuple[str, torch.Tensor]]:
        return run_processors(self.processors[: self._place], ids, logits)[1]

    def decide(
        self, step: TextScores, rows: Sequence[int], *values: Sequence[float], check: bool
    ) -> tuple[list[int], list[bool]]:
        """Return the token of each pair of a text and values, and whether it is uncertain.

        Args:
            step: see ``prepare_step``.
            rows: the text of each pair.
            values: for each dial, its value of each pair.
            check: whether to look for uncertain tokens at all.
        """
        tokens: list[int] = []
        uncertain: list[bool] = []
        size = max(1, min(128, _MAX_ELEMENTS // step.logits.shape[-1]))
        for at in range(0, len(rows), size):
            part = slice(at, at + size)
            own = [one[part] for one in values]
            found, unsure = self._decide_batch(step, rows[part], own, check)
            tokens += found
            uncertain += unsure
        self.count += len(rows)
        return tokens, uncertain

    def _decide_batch(
        self, step: TextScores, rows: Sequence[int], values: Sequence[Sequence[float]], check: bool
    ) -> tuple[list[int], list[bool]]:
        where = torch.tensor(rows)
        late = list(self.processors[self._place :])
        for dial, place, own in zip(self.dials, self._places, values, strict=True):
            late[place - self._place] = with_column(self.processors[place], dial, own)
        before = step.stages[-1][1] if step.stages else step.logits
        scores, stages = run_processors(late, step.ids[where], before[where])
        # torch.multinomial(p, 1) is argmax(p / e) with exponential noise e.
        tokens: list[int] = (scores.softmax(-1) / step.noise).argmax(-1).tolist()
        if not check or not step.margin:
            return tokens, [False] * len(rows)
        fixed = [(name, whole[where]) for name, whole in step.stages]
        unsure: list[bool] = find_uncertain_rows(
            [*fixed, *stages],
            step.logits[where],
            [*self.processors[: self._place], *late],
            step.noise,
            step.margin,
        ).tolist()
        return tokens, unsure
