"""Shared by the loops that decode a batch row by row: appending tokens and yielding Steps."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Sequence
from typing import Any

import torch
import transformers

from engine.loops.recorder import Recorder, Row
from engine.trace.records import Step


def fit_processors(processors: Sequence[Any], rows: int) -> list[Any]:
    """Return the processors adapted to a batch of another size.

    Args:
        processors: transformers' own, made by generate() for one prompt.
        rows: size of the batch they will see.
    """

    def fitted(processor: Any) -> Any:
        if not isinstance(processor, transformers.PrefixConstrainedLogitsProcessor):
            return processor
        # It views the batch in groups of the number of rows it was made for.
        other = copy.copy(processor)
        other._num_beams = rows
        return other

    return [fitted(processor) for processor in processors]


def append_tokens(
    input_ids: torch.Tensor, tokens: torch.Tensor, unfinished: torch.Tensor, config: Any
) -> torch.Tensor:
    """Return (batch, length + 1) ids: every row with its token, finished rows padded.

    Args:
        input_ids: (batch, length) ids so far.
        tokens: (batch,) chosen tokens.
        unfinished: (batch,) 1 for an unfinished row, 0 for a finished one.
        config: the prepared config generate() passed to the loop.
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
    """Yield a Step for every row that was unfinished; the first carries the pass's cost.

    Args:
        recorder: provides the elapsed time.
        rows: the records of the pass.
        tokens: chosen tokens per row.
        unfinished: 1 for a row that was unfinished before the pass.
        detail: (row, sequence) -> the strategy's own record.
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
