"""Adapts a decoding loop (a generator of Steps) to transformers' ``custom_generate`` argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers

from engine.models.model_types import Processors, StoppingCriteria
from engine.trace.records import Step


def as_custom_generate(
    loop: Callable[..., Any], on_step: Callable[[Step], None], **extra: Any
) -> Callable[..., Any]:
    """Return a callable for ``model.generate(..., custom_generate=...)``.

    generate() prepares inputs, caches, processors and stopping criteria. The callable runs the
    loop, passes every step to ``on_step`` and returns the loop's result.

    Args:
        loop: generator of Steps over (model, input_ids, logits_processor, stopping_criteria,
            generation_config, **extra, **model_kwargs).
        on_step: called with each step as it is decided. The last step may come twice under one
            index, the second time with an optional measurement.
        extra: keyword arguments of the loop beyond those of generate() (recorder, generator,
            draft).
    """

    def custom_generate(
        model: Any,
        input_ids: torch.Tensor,
        logits_processor: Processors,
        stopping_criteria: StoppingCriteria,
        generation_config: transformers.GenerationConfig,
        **model_kwargs: Any,
    ) -> Any:
        steps = loop(
            model,
            input_ids,
            logits_processor,
            stopping_criteria,
            generation_config,
            **extra,
            **model_kwargs,
        )
        try:
            while True:
                on_step(next(steps))
        except StopIteration as stop:
            return stop.value
        finally:
            # Runs the loop's cleanup also when on_step raised.
            steps.close()

    return custom_generate
