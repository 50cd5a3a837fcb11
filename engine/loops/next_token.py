"""Greedy search and multinomial sampling: one token per row and forward pass."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import torch

from engine.loops.columns import Columns, Numbers
from engine.loops.forward import Forward
from engine.loops.recorder import Recorder, Row, significant
from engine.loops.rows import grown, row_steps
from engine.trace.details import DrawDetail, Racer
from engine.trace.records import Step

RACERS = 6


def next_token_loop(
    model: Any,
    input_ids: torch.Tensor,
    logits_processor: Any,
    stopping_criteria: Any,
    generation_config: Any,
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
        stopping_criteria: asked after every step; end-of-sequence is one of them.
        generation_config: ``do_sample`` decides between argmax and the draw.
        recorder: makes the records.
        generator: the run's own random numbers; unused when greedy.
        model_kwargs: as generate() prepared them.

    Yields:
        One Step per unfinished row and forward pass; the first of a pass carries its cost.

    Returns:
        (batch, length + new) ids, finished rows padded, as generate() returns them.
    """
    forward = Forward(model, generation_config, model_kwargs)
    prompt_length = input_ids.shape[1]
    unfinished = torch.ones(input_ids.shape[0], dtype=torch.long, device=input_ids.device)
    index = 0
    while unfinished.max() != 0:
        # 1. The model's own distribution, then every processor in turn.
        logits = forward.last_logits(forward(input_ids), input_ids.device)
        seen = recorder.observe(logits, input_ids, logits_processor)
        # 2. The decision.
        if generation_config.do_sample:
            tokens, extra = draw(seen.scores, generator)
        else:
            tokens, extra = seen.scores.argmax(-1), None
        # 3. The question whether to go on, then the record.
        keep, before = input_ids.shape[1] - prompt_length, unfinished
        rows = recorder.record(seen, tokens, keep, extra)
        input_ids = grown(input_ids, tokens, unfinished, generation_config)
        unfinished = unfinished & ~stopping_criteria(input_ids, None)
        index = yield from row_steps(
            recorder, rows, tokens, before, _detail, index=index, keep=keep
        )
    return input_ids


def draw(scores: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, Columns]:
    """Draw one token per row by the exponential race that ``torch.multinomial`` runs.

    Args:
        scores: (batch, vocab) processed logits.
        generator: source of the noise e ~ Exponential(1).

    Returns:
        What ``race`` returns.
    """
    probs = torch.softmax(scores, dim=-1)
    return race(probs, noise_like(probs, generator))


def noise_like(probs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return (batch, vocab) noise e ~ Exponential(1); one draw of a run takes exactly this much."""
    return torch.empty_like(probs).exponential_(1, generator=generator)


def race(probs: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, Columns]:
    """Let every token arrive at e / p; the first one wins.

    Args:
        probs: (batch, vocab) probabilities.
        noise: (batch, vocab) e.

    Returns:
        (batch,) drawn ids, argmax of p / e; and (batch, RACERS) ids, probabilities and noise of
        the earliest arrivals e / p, for the record.
    """
    pace = probs / noise
    first = pace.topk(min(RACERS, pace.shape[-1]), dim=-1).indices
    tokens = pace.argmax(-1)
    # topk and argmax may order equal values differently; the winner is what argmax says.
    first = torch.where(first == tokens[:, None], first[:, :1], first)
    first[:, 0] = tokens
    return tokens, {
        "racers": first,
        "probability": probs.gather(-1, first),
        "noise": noise.gather(-1, first),
    }


def draw_detail(race: Numbers) -> DrawDetail | None:
    """Read the race of one row; tokens of probability zero took no part."""
    columns = (race[name] for name in ("racers", "probability", "noise"))
    racers = [
        Racer(int(token_id), significant(p), significant(noise), significant(noise / p))
        for token_id, p, noise in zip(*columns, strict=True)
        if p > 0
    ]
    return DrawDetail(tuple(racers)) if racers else None


def _detail(row: Row, sequence: int) -> DrawDetail | None:
    del sequence
    return draw_detail(row.extra) if row.extra else None
