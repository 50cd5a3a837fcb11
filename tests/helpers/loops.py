"""A loop by itself under transformers' generate(), to compare with what other releases gave."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from transformers import RepetitionPenaltyLogitsProcessor

from engine.loops.recorder import Recorder
from engine.models.loading import LoadedModel
from engine.run.custom_generate import as_custom_generate
from engine.trace.records import Step
from tests.helpers.models import golden_model, new_tokens


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


def check_recorded(loop: Any, case: dict[str, Any]) -> None:
    """Check that a loop gives the sequences of a recorded case, and the log-probabilities of its first steps."""
    loaded = golden_model(case["model"])
    mask, kwargs = case["attention_mask"], as_recorded(case["kwargs"])
    out, steps = run_loop(loop, loaded, case["input_ids"], mask, case["seed"], **kwargs)
    assert out.tolist() == case["out"]["sequences"]
    start = 1 if loaded.is_encoder_decoder else len(case["input_ids"][0])
    for sequence, ids in enumerate(out.tolist()):
        rows = [step for step in steps if step.sequence == sequence]
        assert len(rows) == len(new_tokens(ids[start:], loaded.eos_token_ids))
        compared = list(zip(rows, case["out"]["scores"], strict=False))
        assert compared
        for step, scores in compared:
            row = [-math.inf if x is None else x for x in scores[sequence]]
            expected = torch.tensor(row).log_softmax(-1)
            for c in step.candidates:
                assert c.processed_logprob == pytest.approx(expected[c.token_id].item(), abs=1e-3)


def rows_together_and_alone(
    loop: Any, case: dict[str, Any]
) -> Iterator[tuple[list[Step], list[Step]]]:
    """Yield the steps of each row of a recorded batch, in the batch and alone; check that their tokens are equal."""
    loaded, ids, masks = golden_model(case["model"]), case["input_ids"], case["attention_mask"]
    kwargs = {k: v for k, v in case["kwargs"].items() if k != "repetition_penalty"}
    _, steps = run_loop(loop, loaded, ids, masks, **kwargs)
    for sequence, row in enumerate(ids):
        mask = masks[sequence] if masks else [1] * len(row)
        real = [i for i, m in zip(row, mask, strict=True) if m]
        _, alone = run_loop(loop, loaded, [real], **kwargs)
        together = [step for step in steps if step.sequence == sequence]
        assert [s.emit for s in together] == [s.emit for s in alone]
        yield together, alone
