"""What padding does to a batch of prompts: each continued alone, and in a batch padded in three ways.

A decoder continues a row after its last position. So padding belongs before a shorter prompt, and the
attention mask has to leave it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from engine.errors import ModelError
from engine.models.loading import LoadedModel
from engine.models.model_views import copy_without_defaults
from engine.models.text import decode_ids

ALONE, LEFT, UNMASKED, RIGHT = "alone", "left", "left, no mask", "right"
PADDINGS = (LEFT, UNMASKED, RIGHT)


@dataclass(frozen=True)
class PaddedPrompt:
    """One prompt of a batch under every padding.

    Attributes:
        token_count: tokens of the prompt.
        pad_count: tokens of padding that make it as long as the longest prompt.
        texts: ALONE or one of PADDINGS -> the greedy continuation.
        probabilities: the same -> probability of the token that the prompt alone is continued with.
    """

    token_count: int
    pad_count: int
    texts: dict[str, str]
    probabilities: dict[str, float]


def compare_padding(
    loaded: LoadedModel, prompts: Sequence[Sequence[int]], max_new_tokens: int = 12
) -> list[PaddedPrompt]:
    """Continue prompts greedily, alone and as one batch under every padding, with transformers' generate().

    Args:
        loaded: a decoder-only model.
        prompts: token ids of each prompt.
        max_new_tokens: length of the continuations.

    Raises:
        ModelError: the model has an encoder, which leaves padding out on either side.
    """
    if loaded.model.config.is_encoder_decoder:
        raise ModelError(
            "{name} reads prompts in an encoder, so the side of the padding changes nothing.",
            name=loaded.name,
        )
    alone = [_generate(loaded, [ids], LEFT, max_new_tokens)[0] for ids in prompts]
    padded = {kind: _generate(loaded, prompts, kind, max_new_tokens) for kind in PADDINGS}
    longest = max(len(ids) for ids in prompts)
    return [
        _describe_prompt(
            loaded,
            len(ids),
            longest - len(ids),
            {ALONE: alone[row], **{kind: padded[kind][row] for kind in PADDINGS}},
        )
        for row, ids in enumerate(prompts)
    ]


def _describe_prompt(
    loaded: LoadedModel,
    token_count: int,
    pad_count: int,
    continued: dict[str, tuple[list[int], torch.Tensor]],
) -> PaddedPrompt:
    first = continued[ALONE][0][0]
    return PaddedPrompt(
        token_count,
        pad_count,
        {kind: decode_ids(loaded.tokenizer, ids) for kind, (ids, _) in continued.items()},
        {kind: float(first_step[first]) for kind, (_, first_step) in continued.items()},
    )


def _generate(
    loaded: LoadedModel, prompts: Sequence[Sequence[int]], padding: str, max_new_tokens: int
) -> list[tuple[list[int], torch.Tensor]]:
    """Return the new ids of each row and the (vocab,) probabilities of its first step."""
    model: Any = copy_without_defaults(loaded.model)
    ends = list(loaded.eos_token_ids)
    pad = model.generation_config.pad_token_id
    # Rows that end early need one, too.
    pad = pad if pad is not None else (ends or [0])[0]
    longest = max(len(ids) for ids in prompts)
    rows: list[list[int]] = []
    masks: list[list[int]] = []
    for ids in prompts:
        spare = longest - len(ids)
        fill, own = [pad] * spare, [1] * len(ids)
        # UNMASKED makes the mistake on purpose: its mask lets the model read the padding.
        unread = [int(padding == UNMASKED)] * spare
        rows.append([*ids, *fill] if padding == RIGHT else [*fill, *ids])
        masks.append([*own, *unread] if padding == RIGHT else [*unread, *own])
    device = loaded.device
    answer = model.generate(
        torch.tensor(rows, device=device),
        attention_mask=torch.tensor(masks, device=device),
        do_sample=False,
        max_new_tokens=max_new_tokens,
        eos_token_id=ends or None,
        pad_token_id=pad,
        output_logits=True,
        return_dict_in_generate=True,
    )
    # The prediction after the last position, which is padding if it was added on the right.
    first = answer.logits[0].float().softmax(-1).cpu()
    return [
        (_until_end(row[longest:], ends), first[number])
        for number, row in enumerate(answer.sequences.tolist())
    ]


def _until_end(ids: list[int], ends: Sequence[int]) -> list[int]:
    # A row that ends at once keeps its end: its first token is what is compared.
    return ids[: next((i for i, token_id in enumerate(ids) if token_id in ends), len(ids))] or ids
