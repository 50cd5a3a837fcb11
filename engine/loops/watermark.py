"""Next-token decoding under a watermark, with the colour or g-values of every token."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# torch does not say what Tensor.tolist() returns.
from __future__ import annotations

import dataclasses
from collections.abc import Generator
from contextlib import closing
from typing import Any

import torch

from engine.loops.next_token import next_token_loop
from engine.loops.recorder import Recorder, round_decimals
from engine.models.model_types import GenerationConfig, Model, Processors, StoppingCriteria
from engine.trace.details import DrawDetail, WatermarkDetail
from engine.trace.records import Step
from engine.watermark import processors
from engine.watermark.marks import CONTEXT_IN_PROMPT, NO_CONTEXT, Tally, null_hypothesis


def watermark_loop(
    model: Model,
    input_ids: torch.Tensor,
    logits_processor: Processors,
    stopping_criteria: StoppingCriteria,
    generation_config: GenerationConfig,
    *,
    recorder: Recorder,
    generator: torch.Generator,
    tally: dict[str, Any],
    **model_kwargs: Any,
) -> Generator[Step, None, torch.Tensor]:
    """Decode like ``next_token_loop`` and add a WatermarkDetail to every step.

    Args:
        model: a generation model.
        input_ids: (batch, length) prompt ids, one row per returned sequence.
        logits_processor: contains the watermark's processor.
        stopping_criteria: checked after every step.
        generation_config: ``do_sample`` decides between argmax and sampling.
        recorder: records every step.
        generator: the run's random generator.
        tally: arguments of ``Tally`` other than the processor; they decide which tokens count.
        model_kwargs: as generate() prepared them.

    Yields:
        One Step per unfinished row and forward pass, with a WatermarkDetail.

    Returns:
        (batch, length + new) ids.
    """
    kinds = (processors.GreenListProcessor, processors.SynthIdProcessor)
    processor = next(p for p in logits_processor if isinstance(p, kinds))
    prompts: list[list[int]] = input_ids.tolist()
    rows = [_MarkedSequence(processor, ids, Tally(processor, **tally)) for ids in prompts]
    steps = next_token_loop(
        model,
        input_ids,
        logits_processor,
        stopping_criteria,
        generation_config,
        recorder=recorder,
        generator=generator,
        **model_kwargs,
    )
    with closing(steps):
        while True:
            try:
                step = next(steps)
            except StopIteration as stop:
                return stop.value
            detail = rows[step.sequence].detail(step)
            yield dataclasses.replace(step, detail=detail)


def _round_share(share: float) -> float:
    """Round a share as a record does; one between 0 and 1 stays between them."""
    return min(max(round_decimals(share), 1e-6), 1 - 1e-6)


class _MarkedSequence:
    """One sequence: its ids and the tally of its tokens."""

    def __init__(self, processor: Any, ids: list[int], tally: Tally) -> None:
        self.processor, self.ids, self.tally = processor, ids, tally
        chances = null_hypothesis(processor)
        self.chances = {
            "expected": _round_share(chances.expected),
            "chance": _round_share(chances.chance),
        }

    def detail(self, step: Step) -> WatermarkDetail:
        """Return the watermark record of a step and append its token."""
        token = step.emit[0]
        reason, fresh = self.tally.add(token)
        draw = step.detail if isinstance(step.detail, DrawDetail) else None
        green = isinstance(self.processor, processors.GreenListProcessor)
        own = self._green_list_marks(step) if green else self._synthid_marks(step)
        if reason == NO_CONTEXT and own["is_green"] is not None:
            reason = CONTEXT_IN_PROMPT  # SynthID pads its first contexts with zeros
        self.ids.append(token)
        return WatermarkDetail(
            scheme=self.processor.scheme.name,
            scored=not reason,
            reason=reason,
            fresh=fresh,
            draw=draw,
            **self.chances,
            **own,
        )

    def _green_list_marks(self, step: Step) -> dict[str, Any]:
        """Return the colours at a step of a green-list scheme."""
        processor, token = self.processor, step.emit[0]
        boosted = processor.boosted[step.sequence]
        scheme = processor.scheme
        # selfhash counts the new token as context; lefthash seeds with the last token alone.
        size = scheme.context_width - 1 if scheme.name == "selfhash" else 1
        context = tuple(self.ids[len(self.ids) - size :])
        if boosted is None:
            return {
                "is_green": None,
                "green_fraction": None,
                "bias": 0.0,
                "context_ids": (),
                "marked": False,
            }
        candidates = list(dict.fromkeys((token, *(c.token_id for c in step.candidates))))
        if isinstance(boosted, torch.Tensor):
            candidate_ids = torch.tensor(candidates, device=boosted.device)
            green: list[bool] = torch.isin(candidate_ids, boosted).tolist()
            colour = dict(zip(candidates, green, strict=True))
            fraction, added = processor.greenlist_size / processor.vocab_size, colour[token]
        else:
            others = [i for i in candidates if i not in boosted]
            # selfhash biases only the tested tokens, but a detector counts other green ones too.
            found = processor.find_green_candidates(torch.tensor(self.ids, device="cpu"), others)
            colour = {**boosted, **dict(zip(others, found, strict=True))}
            fraction, added = sum(boosted.values()) / len(boosted), boosted.get(token, False)
        return {
            "is_green": colour[token],
            "green_fraction": round_decimals(fraction),
            "bias": scheme.bias if added else 0.0,
            "context_ids": context,
            "marked": True,
            "green_candidates": tuple(c.token_id for c in step.candidates if colour[c.token_id]),
        }

    def _synthid_marks(self, step: Step) -> dict[str, Any]:
        """Return the g-values of the emitted token under the processor's context."""
        processor, row = self.processor, step.sequence
        context = processor.state.context[row : row + 1]
        token = torch.tensor([[step.emit[0]]], device=context.device)
        values = processor.g_values_after(context, token)[0, 0].tolist()
        return {
            "is_green": None,
            "green_fraction": None,
            "bias": 0.0,
            "context_ids": tuple(context[0].tolist()),
            "g_values": tuple(values),
            "marked": processor.marked[row],
        }
