"""What generate() hands to a decode loop, taken without running a loop."""

from __future__ import annotations

from typing import Any

import torch

from engine.loops.forward import Forward
from engine.model_code import GENERATE, ModelCall
from engine.models.model_views import copy_without_defaults
from engine.run.preparation import Prepared
from engine.run.run import generate_arguments, get_generate


def capture_loop(run: Prepared, config: Any) -> tuple[Forward, list[Any], torch.Tensor]:
    """Return the passes of a run, its processors in their order, and the ids that its loop begins with.

    Args:
        run: the prepared run.
        config: the config of its strategy to use.
    """
    found: list[tuple[Forward, list[Any], torch.Tensor]] = []

    def capture(
        model: Any,
        input_ids: torch.Tensor,
        logits_processor: Any,
        stopping_criteria: Any,
        generation_config: Any,
        **model_kwargs: Any,
    ) -> torch.Tensor:
        del stopping_criteria
        forward = Forward(model, generation_config, model_kwargs)
        found.append((forward, list(logits_processor), input_ids))
        return input_ids

    prompt = torch.tensor([run.prompt_ids])
    with torch.inference_mode(), ModelCall(GENERATE, run.target.name):
        get_generate(run.target)(
            copy_without_defaults(run.target.model),
            **generate_arguments(run, config, prompt, []),
            custom_generate=capture,
        )
    return found[0]
