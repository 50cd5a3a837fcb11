"""The greedy path of a prompt, decoded beside a beam search to compare with."""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    DynamicCache,
    EncoderDecoderCache,
    EosTokenCriteria,
    MaxLengthCriteria,
    StopStringCriteria,
)

from engine.details import GreedyPath
from engine.loops.forward import Forward
from engine.recorder import rounded

_OF_THE_TEXT = (EosTokenCriteria, MaxLengthCriteria, StopStringCriteria)


def greedy_path(
    model: Any,
    prompt: torch.Tensor,
    logits_processor: Any,
    stopping_criteria: Any,
    generation_config: Any,
    model_kwargs: dict[str, Any],
    winner: tuple[int, ...],
) -> GreedyPath | None:
    """Decode greedily with the same processors and sum the same log-probabilities.

    Args:
        model: a generation model.
        prompt: (1, length) ids.
        logits_processor: the search's own.
        stopping_criteria: the search's own.
        generation_config: the search's own.
        model_kwargs: as generate() prepared them for the search, before its first step.
        winner: new tokens of the search's best hypothesis.

    Returns:
        None when the run was cancelled or out of time: the path would be cut short.
    """
    interrupts = [c for c in stopping_criteria if not isinstance(c, _OF_THE_TEXT)]

    def interrupted() -> bool:
        return any(bool(criterion(prompt, None).all()) for criterion in interrupts)

    if interrupted():
        return None
    forward = Forward(model, generation_config, _single(model, model_kwargs))
    ids, total, logprobs = prompt, 0.0, []
    while True:
        logits = forward.last_logits(forward(ids), ids.device)
        scores = torch.log_softmax(logits, dim=-1)
        for processor in logits_processor:
            scores = processor(ids, scores)
        token = scores.argmax(-1)
        logprobs.append(float(scores[0, token]))
        total += logprobs[-1]
        ids = torch.cat([ids, token[:, None]], dim=-1)
        if bool(stopping_criteria(ids, None).all()):
            break
    if interrupted():
        return None
    new = tuple(ids[0, prompt.shape[1] :].tolist())
    length = len(new)
    score = total / length**generation_config.length_penalty
    return GreedyPath(new, rounded(total), rounded(score), left_at(new, winner))


def left_at(greedy: tuple[int, ...], winner: tuple[int, ...]) -> int | None:
    """Return the first position where the winner is not the greedy path, None when it never is."""
    for position, (a, b) in enumerate(zip(greedy, winner, strict=False)):
        if a != b:
            return position
    return None if len(greedy) == len(winner) else min(len(greedy), len(winner))


def _single(model: Any, model_kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments for one row with an empty cache."""
    single = {k: v[:1] if torch.is_tensor(v) and v.ndim else v for k, v in model_kwargs.items()}
    single["past_key_values"] = DynamicCache()
    if model.config.is_encoder_decoder:
        single["past_key_values"] = EncoderDecoderCache(DynamicCache(), DynamicCache())
        encoded = model_kwargs["encoder_outputs"]
        single["encoder_outputs"] = type(encoded)(last_hidden_state=encoded.last_hidden_state[:1])
    return single
