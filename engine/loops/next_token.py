"""Greedy search and multinomial sampling: one token per row and forward pass."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import torch

from engine.loops.exponential_race import choose_tokens, draw_detail
from engine.loops.forward import Forward
from engine.loops.recorder import Recorder
from engine.loops.rows import Rows
from engine.models.model_types import GenerationConfig, Model, Processors, StoppingCriteria
from engine.trace.records import Step


def next_token_loop(
    model: Model,
    input_ids: torch.Tensor,
    logits_processor: Processors,
    stopping_criteria: StoppingCriteria,
    generation_config: GenerationConfig,
    *,
    recorder: Recorder,
    generator: torch.Generator,
    **model_kwargs: Any,
) -> Generator[Step, None, torch.Tensor]:
    """Decode row by row until every row has finished.

    Args:
        model: a generation model.
        input_ids: (batch, length) prompt ids, one row per returned sequence.
        logits_processor: applied one by one and recorded.
        stopping_criteria: checked after every step; end-of-sequence is one of them.
        generation_config: ``do_sample`` decides between argmax and sampling.
        recorder: records every step.
        generator: the run's random generator; unused when greedy.
        model_kwargs: as generate() prepared them.

    Yields:
        One Step per unfinished row and forward pass. The first of a pass carries its cost.

    Returns:
        (batch, length + new) ids, finished rows padded, as generate() returns them.
    """
    forward = Forward(model, generation_config, model_kwargs)
    rows = Rows(forward, input_ids, stopping_criteria, recorder, draw_detail)
    drawn = generator if generation_config.do_sample else None
    while (yield from rows.run_pass()):
        # 1. The distribution after the text: the logits through every processor in turn.
        scores, noise = rows.process(logits_processor, drawn)
        # 2. The decision: the most probable token, or a sample.
        tokens, race = choose_tokens(scores, noise)
        # 3. The text grows; a row ends where a stopping criterion says so.
        rows.append(tokens, race)
    return rows.ids
