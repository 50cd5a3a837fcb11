"""What the loops share that decode a batch row by row: how rows grow, and the Steps of a pass."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Sequence
from typing import Any

import torch
import transformers

from engine.loops.recorder import Recorder, Row
from engine.trace.records import Step


def for_rows(processors: Sequence[Any], rows: int) -> list[Any]:
    """Return processors for a batch of another size than generate() made them for.

    Args:
        processors: transformers' own, for one prompt.
        rows: of the batch they will see; the one that keeps to allowed tokens counts them.
    """

    def fitted(processor: Any) -> Any:
        if not isinstance(processor, transformers.PrefixConstrainedLogitsProcessor):
            return processor
        other = copy.copy(processor)
        other._num_beams = rows
        return other

    return [fitted(processor) for processor in processors]


def grown(
    input_ids: torch.Tensor, tokens: torch.Tensor, unfinished: torch.Tensor, config: Any
) -> torch.Tensor:
    """Return (batch, length + 1) ids: every row with its token, finished rows padded.

    Args:
        input_ids: (batch, length) ids so far.
        tokens: (batch,) what each row chose.
        unfinished: (batch,) 1 for a row that goes on, 0 for one that has ended.
        config: the prepared config generate() handed to the loop.
    """
    pad = config._pad_token_tensor
    if pad is not None:
        tokens = tokens * unfinished + pad.to(tokens.device) * (1 - unfinished)
    return torch.cat([input_ids, tokens[:, None]], dim=-1)


def row_steps(
    recorder: Recorder,
    rows: Sequence[Row],
    tokens: Sequence[int],
    unfinished: Sequence[int],
    detail: Callable[[Row, int], Any],
    *,
    index: int,
    keep: int,
    cost: int = 1,
) -> Generator[Step, None, int]:
    """Yield a Step for every row that had not ended; the first carries the pass's cost.

    Args:
        recorder: knows the time.
        rows: the records of the pass.
        tokens: what each row chose.
        unfinished: 1 for a row that had not ended before.
        detail: row and sequence -> what is special to the strategy.
        index: of the first step.
        keep: new tokens before the pass.
        cost: forward passes.

    Returns:
        The index of the next step.
    """
    for sequence, row in enumerate(rows):
        if unfinished[sequence]:
            yield Step(
                index=index,
                keep=keep,
                emit=(tokens[sequence],),
                candidates=row.candidates,
                stages=row.stages,
                detail=detail(row, sequence),
                logsumexp=row.logsumexp,
                entropy=row.entropy,
                forward_passes=cost,
                elapsed_s=recorder.elapsed_s(),
                sequence=sequence,
            )
            index, cost = index + 1, 0
    return index
