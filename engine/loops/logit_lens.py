"""Logit lens: the next-token distribution of every decoder layer, as DoLa contrasts them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from engine.loops.entropy import compute_entropy, fast_exp
from engine.loops.host_transfer import Columns, RowValues
from engine.model_code import LAYER_READING, ModelCall
from engine.models.capabilities import final_norm
from engine.models.model_types import Model
from engine.trace.details import LayerReading

TOKENS_PER_LAYER = 4
"""Tokens recorded per layer and step; the main factor in the size of a DoLa trace."""
_DEEP_MODEL_LAYERS = 40
_CPU_CACHE_VALUES = 2**18
"""Values of one chunk that fit a CPU cache together with the results."""


def candidate_layers(chosen: str | Sequence[int], layers: int, tied: bool) -> tuple[int, ...]:
    """Return the layers DoLa may contrast with the last one; 0 is the embedding output.

    Args:
        chosen: ``low`` or ``high`` (every second layer of that half, at most 20 layers deep), or a
            list, of which entries outside the layers below the last are dropped.
        layers: number of decoder layers, at least 1.
        tied: whether input and output embedding share one matrix. Then ``low`` starts at layer 2,
            because the lowest layers would predict their own input token.

    Returns:
        Layers in order without repeats, empty if none qualifies.
    """
    if isinstance(chosen, str):
        start = min(2, layers - 1) if tied else 0
        middle = layers // 2
        if chosen == "high":
            return tuple(range(layers - 20 if layers > _DEEP_MODEL_LAYERS else middle, layers, 2))
        if start == middle:
            return (start,)
        return tuple(range(start, 20 if layers > _DEEP_MODEL_LAYERS else middle, 2))
    return tuple(dict.fromkeys(layer for layer in chosen if 0 <= layer < layers))


def is_tied(model: Model) -> bool:
    """Return whether the output head shares the weights of the input embedding."""
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    if head.weight is embedding.weight:
        return True
    if head.weight.is_meta or embedding.weight.is_meta:
        # Weights offloaded to disk have no address.
        return bool(model.config.get_text_config(decoder=True).tie_word_embeddings)
    return head.weight.data_ptr() == embedding.weight.data_ptr()


@dataclass(frozen=True)
class LayerDistributions:
    """The distributions of all layers at one position.

    Readings come in two blocks: the head applied to each layer without the final norm (embedding
    output first, the last layer left out), then the same layers with the norm, if it is known.

    Attributes:
        count: layers read.
        final: (batch, vocab) the model's own log-probabilities.
        read: (batch, readings, vocab) log-probabilities.
        apart: (batch, readings) Jensen-Shannon divergence of each from ``final``.
        entropies: (batch, readings) of each, in nats.
    """

    count: int
    final: torch.Tensor
    read: torch.Tensor
    apart: torch.Tensor
    entropies: torch.Tensor

    @property
    def raw(self) -> torch.Tensor:
        """(batch, layers, vocab) log-probabilities without the final norm."""
        return self.read[:, : self.count]

    @property
    def normed(self) -> torch.Tensor:
        """(batch, layers, vocab) with the final norm; the same as ``raw`` if no norm is known."""
        return self.read[:, -self.count :]

    @property
    def divergence(self) -> torch.Tensor:
        """(batch, layers) divergence of ``raw`` from ``final``, by which DoLa selects."""
        return self.apart[:, : self.count]


@ModelCall(LAYER_READING)
def project_layers(
    model: Model, hidden_states: Sequence[torch.Tensor], logits: torch.Tensor
) -> LayerDistributions:
    """Apply the output head to every layer at the last position.

    Args:
        model: a decoder-only model.
        hidden_states: embedding output and every layer's, each (batch, positions, hidden).
        logits: (batch, vocab) float32 of the last position.
    """
    head, norm = model.get_output_embeddings(), final_norm(model)
    hidden = torch.stack([state[:, -1] for state in hidden_states[:-1]], dim=1)
    final = torch.log_softmax(logits, dim=-1)
    # One product, so the head's weights are read once.
    # DoLa reads layers without the final norm, as its authors and transformers 4.55 do. Readings with
    # the norm are recorded for comparison only.
    states = hidden if norm is None else torch.cat([hidden, norm(hidden)], dim=1)
    read = head(states).float().to(logits.device)
    for part in _split_for_cpu_cache(read):
        part.copy_(torch.log_softmax(part, dim=-1))
    return LayerDistributions(hidden.shape[1], final, read, *compare_layers(read, final))


def _split_for_cpu_cache(read: torch.Tensor) -> Sequence[torch.Tensor]:
    """Split (batch, readings, vocab) into chunks that fit the CPU cache; elsewhere one chunk."""
    if read.device.type != "cpu":
        return (read,)
    # Chunks of a megabyte avoid new allocations; comparing 60 layers takes 11 ms, not 57.
    return torch.split(read, max(1, _CPU_CACHE_VALUES // (read.shape[0] * read.shape[-1])), dim=1)


def compare_layers(
    premature: torch.Tensor, final: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (batch, readings) Jensen-Shannon divergence as in DoLa, and entropy in nats.

    With M the mean of both distributions, the divergence is half of KL(M, final) plus half of
    KL(M, premature). Both are averaged, not summed, over the vocabulary, so the values are tiny.

    Args:
        premature: (batch, readings, vocab) log-probabilities.
        final: (batch, vocab) log-probabilities.
    """
    final = final[:, None]
    final_probs = fast_exp(final)
    apart, entropy = list[torch.Tensor](), list[torch.Tensor]()
    for part in _split_for_cpu_cache(premature):
        probs = fast_exp(part)
        entropy.append(compute_entropy(part, probs))
        mean = probs.add_(final_probs).mul_(0.5)
        # The same sum as torch.nn.functional.kl_div, but faster: M is never 0 here.
        more = mean.log().sub_(part, alpha=0.5).sub_(final, alpha=0.5)
        # The mean over the vocabulary, not the sum, as in transformers 4.55; only the order counts.
        apart.append(more.mul_(mean).mean(-1))
    return torch.cat(apart, dim=1), torch.cat(entropy, dim=1)


def layer_columns(layers: LayerDistributions, tokens: torch.Tensor) -> Columns:
    """Return (batch, readings + 1, …) numbers of every reading; the last is the model's output.

    Args:
        layers: result of ``project_layers``.
        tokens: (batch,) emitted ids, for their rank and log-probability.
    """
    final = layers.final[:, None]
    nothing = torch.zeros_like(layers.apart[:, :1])
    last = compute_entropy(final, fast_exp(final))
    found = [_rank_tokens(part, tokens) for part in (*_split_for_cpu_cache(layers.read), final)]
    ranks, logprobs, ids, values = (torch.cat(parts, dim=1) for parts in zip(*found, strict=True))
    return {
        "divergence": torch.cat([layers.apart, nothing], dim=1),
        "entropy": torch.cat([layers.entropies, last], dim=1),
        "rank": ranks,
        "logprob": logprobs,
        "top_ids": ids,
        "top_probs": values.exp(),
    }


def _rank_tokens(
    part: torch.Tensor, tokens: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return rank and log-probability of the tokens, and ids and log-probabilities of the top."""
    own = part.gather(-1, tokens[:, None, None].expand(-1, part.shape[1], 1))
    # Counting in floats is exact below 2**24 and four times faster than booleans on a CPU.
    above = torch.gt(part, own, out=torch.empty_like(part)).sum(-1)
    top = part.topk(min(TOKENS_PER_LAYER, part.shape[-1]), dim=-1)
    return above, own[..., 0], top.indices, top.values


def unpack_readings(numbers: RowValues, layers: int) -> tuple[LayerReading, ...]:
    """Return the layer readings of one row.

    Args:
        numbers: one row of ``layer_columns``.
        layers: decoder layers; the reading after the last one is the model's output.
    """
    output = len(numbers["rank"]) - 1
    result: list[LayerReading] = []
    for layer in range(layers + 1):
        last = layer == layers
        raw = _unpack_reading(numbers, output if last else layer)
        # Without a known norm, this is the raw reading again.
        normed = raw if last else _unpack_reading(numbers, output - layers + layer)
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


def _unpack_reading(
    numbers: RowValues, place: int
) -> tuple[float, float, int, float, tuple[tuple[int, float], ...]]:
    """Return divergence, entropy, rank, log-probability and top tokens of one reading."""
    apart, entropy, rank, logprob = (
        numbers[name][place] for name in ("divergence", "entropy", "rank", "logprob")
    )
    ids, probs = numbers["top_ids"], numbers["top_probs"]
    width = len(ids) // len(numbers["rank"])
    group = slice(place * width, (place + 1) * width)
    top = tuple((int(i), round_reading(p)) for i, p in zip(ids[group], probs[group], strict=True))
    return round_reading(apart), round_reading(entropy), int(rank), round_reading(logprob), top


def round_reading(value: float) -> float:
    """Round to five significant digits; fixed decimals would erase divergences below 1e-6."""
    return float(f"{value:.5g}") if math.isfinite(value) else value
