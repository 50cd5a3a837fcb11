"""What every layer of a decoder would say: which layers DoLa may contrast, and their readings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from engine.loops.columns import Columns, Numbers
from engine.loops.exponents import entropies, quick_exp
from engine.models.capabilities import final_norm
from engine.trace.details import LayerReading

TOP = 4
"""Tokens recorded per layer and step; with many layers this decides the size of a trace."""
_DEEP = 40


def candidate_layers(chosen: str | Sequence[int], layers: int, tied: bool) -> tuple[int, ...]:
    """Return the layers DoLa compares with the last one; 0 is the embedding's output.

    Args:
        chosen: ``low`` or ``high`` (every second layer of that half, at most 20 layers deep), or
            a list, of which entries that are no layer below the last are left out.
        layers: number of decoder layers, at least 1.
        tied: whether input and output embedding are one matrix. Then the lowest layers would
            merely return their own input token, so ``low`` starts at layer 2.

    Returns:
        Layers in order without repeats; empty when the rule leaves none.
    """
    if isinstance(chosen, str):
        start = min(2, layers - 1) if tied else 0
        middle = layers // 2
        if chosen == "high":
            return tuple(range(layers - 20 if layers > _DEEP else middle, layers, 2))
        if start == middle:
            return (start,)
        return tuple(range(start, 20 if layers > _DEEP else middle, 2))
    return tuple(dict.fromkeys(layer for layer in chosen if 0 <= layer < layers))


def is_tied(model: Any) -> bool:
    """Whether the output head is the input embedding itself."""
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    if head.weight is embedding.weight:
        return True
    if head.weight.is_meta or embedding.weight.is_meta:
        # What waits on disk has no address.
        return bool(model.config.get_text_config(decoder=True).tie_word_embeddings)
    return head.weight.data_ptr() == embedding.weight.data_ptr()


@dataclass(frozen=True)
class Layers:
    """The distributions of all layers at one position.

    Attributes:
        final: (batch, vocab) the model's own log-probabilities.
        raw: (batch, layers, vocab) log-probabilities of the head applied to each layer as it is,
            embedding output first, the last layer not among them.
        normed: the same with the model's final norm applied first.
        divergence: (batch, layers) of raw from final.
        normed_divergence: (batch, layers) of normed from final.
        entropy: (batch, layers) of raw, in nats.
        normed_entropy: (batch, layers) of normed, in nats.
    """

    final: torch.Tensor
    raw: torch.Tensor
    normed: torch.Tensor
    divergence: torch.Tensor
    normed_divergence: torch.Tensor
    entropy: torch.Tensor
    normed_entropy: torch.Tensor


def project(model: Any, hidden_states: Sequence[torch.Tensor], logits: torch.Tensor) -> Layers:
    """Ask every layer for its next token.

    Args:
        model: a decoder-only model.
        hidden_states: embedding output and every layer's, each (batch, positions, hidden).
        logits: (batch, vocab) float32 of the last position.
    """
    head, norm = model.get_output_embeddings(), final_norm(model)
    hidden = torch.stack([state[:, -1] for state in hidden_states[:-1]], dim=1)
    count, final = hidden.shape[1], torch.log_softmax(logits, dim=-1)
    # In one product, so that the head's weights are read once.
    states = hidden if norm is None else torch.cat([hidden, norm(hidden)], dim=1)
    scores = head(states).float().to(logits.device)
    raw = torch.log_softmax(scores[:, :count], dim=-1)
    apart, entropy = compared(raw, final)
    if norm is None:
        return Layers(final, raw, raw, apart, apart, entropy, entropy)
    normed = torch.log_softmax(scores[:, count:], dim=-1)
    normed_apart, normed_entropy = compared(normed, final)
    return Layers(final, raw, normed, apart, normed_apart, entropy, normed_entropy)


def compared(premature: torch.Tensor, final: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (batch, layers) Jensen-Shannon divergence as DoLa measures it, and entropy in nats.

    With M the mean of both distributions the divergence is half of KL(M, final) plus half of
    KL(M, premature), each averaged (not summed) over the vocabulary: tiny numbers, whose order is
    what counts.

    Args:
        premature: (batch, layers, vocab) log-probabilities.
        final: (batch, vocab) log-probabilities.
    """
    final = final[:, None]
    probs = quick_exp(premature)
    entropy = entropies(premature, probs)
    mean = probs.add_(quick_exp(final)).mul_(0.5)
    # As torch.nn.functional.kl_div sums it, in a fraction of its time: no M is 0 here.
    own = mean * mean.log()
    parts = [(own - mean * logprobs).mean(-1) for logprobs in (final, premature)]
    return 0.5 * (parts[0] + parts[1]), entropy


def columns_of(layers: Layers, tokens: torch.Tensor) -> Columns:
    """Return (batch, layers + 1, …) numbers that describe every layer and, as the last, the model.

    Args:
        layers: what ``project`` returned.
        tokens: (batch,) emitted ids, whose rank and log-probability are wanted.
    """
    final = layers.final[:, None]
    last = entropies(final, quick_exp(final))
    columns = {}
    for name, distributions, apart, entropy in (
        ("raw", layers.raw, layers.divergence, layers.entropy),
        ("normed", layers.normed, layers.normed_divergence, layers.normed_entropy),
    ):
        logprobs = torch.cat([distributions, final], 1)
        own = logprobs.gather(-1, tokens[:, None, None].expand(-1, logprobs.shape[1], 1))
        top = logprobs.topk(min(TOP, logprobs.shape[-1]), dim=-1)
        columns |= {
            f"{name}_divergence": torch.cat([apart, torch.zeros_like(apart[:, :1])], 1),
            f"{name}_entropy": torch.cat([entropy, last], 1),
            f"{name}_rank": (logprobs > own).sum(-1),
            f"{name}_logprob": own,
            f"{name}_top_ids": top.indices,
            f"{name}_top_probs": top.values.exp(),
        }
    return columns


def readings(numbers: Numbers, layers: int) -> tuple[LayerReading, ...]:
    """Read one row's numbers of ``columns_of``.

    Args:
        numbers: of one row.
        layers: decoder layers; what follows the last of them is the model's own output.
    """
    result = []
    for layer in range(layers + 1):
        raw = _reading(numbers, "raw", layer, layers + 1)
        normed = _reading(numbers, "normed", layer, layers + 1)
        last = layer == layers
        result.append(
            LayerReading(
                layer,
                None if last else raw[0],
                *raw[1:],
                *normed[1:],
                normed_divergence=None if last else normed[0],
            )
        )
    return tuple(result)


def _reading(
    numbers: Numbers, name: str, layer: int, count: int
) -> tuple[float, float, int, float, tuple[tuple[int, float], ...]]:
    """Return divergence, entropy, rank, log-probability and top of one of ``count`` layers."""
    apart, entropy, rank, logprob = (
        numbers[f"{name}_{column}"][layer]
        for column in ("divergence", "entropy", "rank", "logprob")
    )
    ids, probs = numbers[f"{name}_top_ids"], numbers[f"{name}_top_probs"]
    width = len(ids) // count
    group = slice(layer * width, (layer + 1) * width)
    top = tuple((int(i), short(p)) for i, p in zip(ids[group], probs[group], strict=True))
    return short(apart), short(entropy), int(rank), short(logprob), top


def short(value: float) -> float:
    """Round to five significant digits: divergences are far below one millionth."""
    return float(f"{value:.5g}") if math.isfinite(value) else value
