"""A loop by itself under transformers' generate(), to compare with what other releases gave."""

from __future__ import annotations

from typing import Any

import torch
from transformers import RepetitionPenaltyLogitsProcessor

from engine.loops.recorder import Recorder
from engine.models.loading import LoadedModel
from engine.run.custom_generate import as_custom_generate
from engine.trace.records import Step


def as_recorded(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with which a loop does what the older release did."""
    kwargs = dict(kwargs)
    if "repetition_penalty" in kwargs:
        # The older release also penalises padding ids; so does the plain processor.
        penalty = RepetitionPenaltyLogitsProcessor(kwargs.pop("repetition_penalty"))
        kwargs["logits_processor"] = [penalty]
    return kwargs


def run_loop(
    loop: Any,
    loaded: LoadedModel,
    ids: list[list[int]],
    mask: list[list[int]] | None = None,
    seed: int = 0,
    **kwargs: Any,
) -> tuple[Any, list[Step]]:
    """Return (what generate() returned, the steps).

    Args:
        loop: a generator of Steps.
        loaded: the model.
        ids: (batch, length) prompts.
        mask: 0 where a prompt is padded; None lets generate() say.
        seed: of the loop's own generator.
        kwargs: generate()'s own.
    """
    steps: dict[int, Step] = {}

    def keep(step: Step) -> None:
        """A step that comes twice has been measured beside since."""
        steps[step.index] = step

    generator = torch.Generator().manual_seed(seed)
    custom = as_custom_generate(loop, keep, recorder=Recorder(97), generator=generator)
    out = loaded.model.generate(
        torch.tensor(ids),
        custom_generate=custom,
        attention_mask=None if mask is None else torch.tensor(mask),
        **kwargs,
    )
    return out, list(steps.values())
