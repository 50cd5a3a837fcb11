"""Compare a converted model with its original, on a fixed text and on passes of many shapes."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from transformers import DynamicCache

from engine.errors import ModelError
from engine.models.model_types import Model, Tokenizer
from engine.models.openvino.cache import GraphCache

TOLERANCE = 1e-3
"""Largest tolerated logit difference in float32."""
PROBE_TEXT = (
    "A small fox lived near the river with her mother. Every morning she went down to the water to look for fish. "
    "One winter day the river was frozen from bank to bank, and the fox was hungry. She asked the crow for help, "
    "but the crow only laughed and flew away. Then a boy came by with a sled and a basket of bread. He was on his "
    "way to his grandmother, who lived on the other side of the hill. The boy gave the fox a piece of bread, and "
    "she showed him where the ice was thick enough to walk. From then on they were friends. When spring came, the "
    "river began to run again, and the fox caught three fish in one morning. She kept one for herself, brought "
    "one to her mother, and laid the third on the doorstep of the boy. He looked for her everywhere, but she was "
    "already back in the forest."
)
_CONTEXT = 256
_SEED = 20
_FORK = ([1, 0, 0], 3, 2)
_PASSES = (_FORK, ([2, 0], 5, 1), ([1], 1, 0))
"""(rows selected from the previous pass, number of new tokens, number of tokens then cropped)."""


def probe_ids(tokenizer: Tokenizer, vocab_size: int) -> torch.Tensor:
    """Return (1, length) ids of the fixed text, or random ids if the model has no tokenizer."""
    if tokenizer is None:
        drawn = torch.Generator().manual_seed(_SEED)
        return torch.randint(0, vocab_size, (1, _CONTEXT // 2), generator=drawn)
    ids = tokenizer(PROBE_TEXT, return_tensors="pt").input_ids
    return ids[:, :_CONTEXT].clamp(max=vocab_size - 1)


@torch.inference_mode()
def largest_difference(model: Model, converted: Model, ids: torch.Tensor) -> float:
    """Return the largest logit difference of two models, over a whole text and over passes of many shapes.

    Args:
        model: the original with its weights.
        converted: the same model on graphs.
        ids: (1, length) ids of a text.

    Raises:
        ModelError: the graph cannot run one of the passes.
    """
    try:
        whole = _max_difference(*(one(ids, use_cache=False).logits for one in (model, converted)))
        return max(whole, _compare_passes(model, converted, ids))
    except RuntimeError:
        raise ModelError("its graph cannot read passes of every shape") from None


def _compare_passes(model: Model, converted: Model, ids: torch.Tensor) -> float:
    """Compare passes with padded, selected and repeated rows and with cropped positions."""
    own: Any = DynamicCache(config=model.config)
    graph = converted.new_cache()
    # Otherwise a layer with a sliding window forgets what leaves it, and cannot be cropped.
    own.activate_past_recording()
    first = ids[:, : max(8, min(12, ids.shape[1]))].repeat(2, 1)
    mask = torch.ones_like(first)
    # One row is padded on the left.
    mask[0, :3] = 0
    largest = _compare_step(model, converted, own, graph, first, mask)
    for rows, new, dropped in _PASSES:
        for cache in (own, graph):
            cache.reorder_cache(torch.tensor(rows))
        mask = torch.cat([mask[rows], mask.new_ones(len(rows), new)], 1)
        read = ids[:, -new:].repeat(len(rows), 1)
        largest = max(largest, _compare_step(model, converted, own, graph, read, mask))
        if dropped:
            for cache in (own, graph):
                cache.crop(-dropped)
            mask = mask[:, :-dropped]
    return largest


def _compare_step(
    model: Model,
    converted: Model,
    own: DynamicCache,
    graph: GraphCache,
    ids: torch.Tensor,
    mask: torch.Tensor,
) -> float:
    # As generate() counts them: padding has no position.
    positions = (mask.cumsum(-1) - 1).clip(0)[:, -ids.shape[1] :]
    inputs = {"input_ids": ids, "attention_mask": mask}
    if "position_ids" in inspect.signature(model.forward).parameters:
        inputs["position_ids"] = positions
    found = [
        one(**inputs, past_key_values=cache).logits
        for one, cache in ((model, own), (converted, graph))
    ]
    # What a model says at padding means nothing.
    real = mask[:, -ids.shape[1] :].bool()
    return _max_difference(*(logits[real] for logits in found))


def _max_difference(one: torch.Tensor, other: torch.Tensor) -> float:
    apart = float((one.float() - other).abs().max())
    # NaN must not pass a comparison with the limit.
    return apart if apart == apart else float("inf")


@torch.inference_mode()
def measure_agreement(model: Model, converted: Model, ids: torch.Tensor) -> dict[str, float]:
    """Compare two models' distributions over a text, as the fields of ``trace.records.Agreement``.

    Args:
        model: the original with its weights.
        converted: the same model on graphs with quantised weights.
        ids: (1, length) ids of a text.

    Returns:
        tokens; share of positions with the same top token; mean KL divergence in nats; both perplexities.
    """
    own, other = (
        one(ids, use_cache=False).logits[0].float().log_softmax(-1) for one in (model, converted)
    )
    next_ids = ids[0, 1:, None]

    def perplexity(logprobs: torch.Tensor) -> float:
        return float((-logprobs[:-1].gather(-1, next_ids)).mean().exp())

    same = (own.argmax(-1) == other.argmax(-1)).float().mean()
    apart = (own.exp() * (own - other)).sum(-1).mean()
    return {
        "tokens": ids.shape[1],
        "same_top": round(float(same), 4),
        "kl": float(f"{max(float(apart), 0.0):.4g}"),
        "perplexity": round(perplexity(other), 4),
        "torch_perplexity": round(perplexity(own), 4),
    }
