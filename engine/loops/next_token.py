"""Greedy search and multinomial sampling: one token per row and forward pass."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import torch

from engine.loops.forward import Forward
from engine.loops.host_transfer import Columns, RowValues
from engine.loops.recorder import Observation, Recorder, Row, round_significant
from engine.loops.rows import append_tokens, row_steps
from engine.trace.details import DrawDetail, Racer
from engine.trace.records import Step

MAX_RACERS = 6
SHARED_PASSES_NOTE = (
    "Forward passes were shared with other runs: a score may differ in its last digits from that of a pass"
    " alone, and no token does."
)
RECOMPUTED_NOTE = "Steps that such a difference could have turned were decided by passes alone."
_TOKEN, _BEFORE, _AFTER = "token", "unfinished_before", "unfinished_after"


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
    forward.apart = _has_unknown_tolerance(logits_processor)
    prompt_length, late = input_ids.shape[1], is_reading_deferred(input_ids.device)
    unfinished = torch.ones(input_ids.shape[0], dtype=torch.long, device=input_ids.device)
    index, open_rows, unread = 0, True, None
    while open_rows:
        # 1. One forward pass, then every processor in turn.
        try:
            logits = forward.last_logits(forward(input_ids), input_ids.device)
        finally:
            # The device works on this pass meanwhile. In ``finally``: a failed pass keeps its step.
            if unread is not None:
                index, open_rows = yield from _read_steps(recorder, *unread, index)
        if not open_rows:
            break
        drawn = generator if generation_config.do_sample else None
        seen, noise = _observe_pass(forward, recorder, logits, input_ids, logits_processor, drawn)
        # 2. The decision.
        tokens, extra = seen.scores.argmax(-1), {}
        if noise is not None:
            tokens, extra = run_race(torch.softmax(seen.scores, dim=-1), noise)
        # 3. Stopping criteria, then the record.
        keep, before = input_ids.shape[1] - prompt_length, unfinished
        input_ids = append_tokens(input_ids, tokens, unfinished, generation_config)
        unfinished = unfinished & ~stopping_criteria(input_ids, None)
        state = {_TOKEN: tokens, _BEFORE: before, _AFTER: unfinished}
        unread = recorder.start_record(seen, tokens, keep, {**extra, **state}), keep
        if not late:
            index, open_rows = yield from _read_steps(recorder, *unread, index)
            unread = None
    return input_ids


def _has_unknown_tolerance(processors: Any) -> bool:
    """Return whether a processor has no known tolerance, so passes must not be batched."""
    # Imported late: it needs transformers' classes, and listing strategies must not load them.
    from engine.loops.tolerance import has_known_tolerance

    return not has_known_tolerance(processors)


def _observe_pass(
    forward: Forward,
    recorder: Recorder,
    logits: torch.Tensor,
    input_ids: torch.Tensor,
    processors: Any,
    drawn: torch.Generator | None,
) -> tuple[Observation, torch.Tensor | None]:
    """Observe the logits of a pass; recompute it unbatched if batching could change the decision.

    Returns:
        The observation and the (batch, vocab) noise of the draw, None when greedy.
    """
    from engine.loops.tolerance import may_change_decision

    def noise() -> torch.Tensor | None:
        return None if drawn is None else draw_noise(logits, drawn)

    # Unbatched logits are exact and need no check.
    if not forward.tolerance:
        return recorder.observe(logits, input_ids, processors), noise()
    recorder.additions.add_note(SHARED_PASSES_NOTE)
    # The noise is drawn once: a recomputed step must use the same random numbers.
    known, late = recorder.apply_unobserved(logits, input_ids, processors), noise()
    if may_change_decision(known[1], logits, processors, late, forward.tolerance):
        recorder.additions.add_note(RECOMPUTED_NOTE)
        logits, known = (
            forward.last_logits(forward.recompute_alone(input_ids), input_ids.device),
            None,
        )
    return recorder.observe(logits, input_ids, processors, known), late


def is_reading_deferred(device: torch.device) -> bool:
    """Return whether a step is read only after the next pass has begun, as on CUDA.

    The last step then has one unused pass after it.
    """
    return device.type == "cuda"


def _read_steps(
    recorder: Recorder, record: Callable[[], list[Row]], keep: int, index: int
) -> Generator[Step, None, tuple[int, bool]]:
    """Yield the Steps of a pass; return the next index and whether any row is unfinished."""
    rows = record()
    tokens, before, after = (
        [int(row.extra[name][0]) for row in rows] for name in (_TOKEN, _BEFORE, _AFTER)
    )
    index = yield from row_steps(
        recorder, rows, tokens, before, _row_detail, index=index, keep=keep
    )
    return index, any(after)


def draw_tokens(scores: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, Columns]:
    """Sample one token per row by the exponential race of ``torch.multinomial``.

    Args:
        scores: (batch, vocab) processed logits.
        generator: source of the noise e ~ Exponential(1).

    Returns:
        The result of ``run_race``.
    """
    probs = torch.softmax(scores, dim=-1)
    return run_race(probs, draw_noise(probs, generator))


def draw_noise(probs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return (batch, vocab) noise e ~ Exponential(1), the only random numbers of a draw."""
    return torch.empty_like(probs).exponential_(1, generator=generator)


def run_race(probs: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, Columns]:
    """Run the exponential race: every token arrives at e / p, and the first wins.

    Args:
        probs: (batch, vocab) probabilities p.
        noise: (batch, vocab) noise e.

    Returns:
        (batch,) sampled ids, the argmax of p / e; and (batch, RACERS) ids, probabilities and noise
        of the earliest arrivals e / p, for the record.
    """
    pace = probs / noise
    first = pace.topk(min(MAX_RACERS, pace.shape[-1]), dim=-1).indices
    tokens = pace.argmax(-1)
    # topk and argmax may order equal values differently; argmax decides.
    first = torch.where(first == tokens[:, None], first[:, :1], first)
    first[:, 0] = tokens
    return tokens, {
        "racers": first,
        "probability": probs.gather(-1, first),
        "noise": noise.gather(-1, first),
    }


def draw_detail(race: RowValues) -> DrawDetail | None:
    """Return the record of one row's race, without tokens of probability zero."""
    columns = (race[name] for name in ("racers", "probability", "noise"))
    racers = [
        Racer(
            int(token_id),
            round_significant(p),
            round_significant(noise),
            round_significant(noise / p),
        )
        for token_id, p, noise in zip(*columns, strict=True)
        if p > 0
    ]
    return DrawDetail(tuple(racers)) if racers else None


def _row_detail(row: Row, sequence: int) -> DrawDetail | None:
    del sequence
    return draw_detail(row.extra) if "racers" in row.extra else None
