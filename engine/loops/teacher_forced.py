"""One pass over a text that is known: what the model said at every place of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Reading:
    """What a model made of a text.

    Attributes:
        logits: (new, vocab) in the model's own precision, each row the one its token was read from.
        states: (new, hidden) of the embedding's output and of every layer, where they were asked for.
        before: ids that stand before the text for the decoder: the prompt, or its start token.
    """

    logits: torch.Tensor
    states: tuple[torch.Tensor, ...]
    before: tuple[int, ...]


def teacher_forced(
    loaded: Any, prompt_ids: Sequence[int], new_ids: Sequence[int], *, states: bool = False
) -> Reading:
    """Read a text in one forward pass without a cache.

    Args:
        loaded: the LoadedModel; an encoder-decoder model reads the prompt with its encoder.
        prompt_ids: at least one id.
        new_ids: at least one id.
        states: return the hidden states of a decoder-only model, too.
    """
    device, prompt = loaded.device, list(prompt_ids)
    before = ids_before(loaded, prompt)
    ids = torch.tensor([[*before, *new_ids[:-1]]], device=device)
    own: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if loaded.is_encoder_decoder:
        read = torch.tensor([prompt], device=device)
        own = {"input_ids": read, "attention_mask": torch.ones_like(read), "decoder_input_ids": ids}
    out = loaded.model(**own, use_cache=False, output_hidden_states=states)
    first = len(before) - 1
    layers = tuple(state[0, first:] for state in out.hidden_states) if states else ()
    return Reading(out.logits[0, first:], layers, tuple(before))


def ids_before(loaded: Any, prompt_ids: Sequence[int]) -> list[int]:
    """Return the ids that stand before the text of an output: the prompt, or a decoder's start token."""
    if not loaded.is_encoder_decoder:
        return list(prompt_ids)
    model = loaded.model
    start = model.generation_config.decoder_start_token_id
    return [model.config.decoder_start_token_id if start is None else start]
