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
_IN_CACHE = 2**18
"""Numbers that a processor has room for beside what is made of them."""


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

    A reading is one of the head applied to a layer as it is, embedding output first, the last
    layer not among them; then, where the model's final norm is known, to the same layers normed.

    Attributes:
        count: layers that were read.
        final: (batch, vocab) the model's own log-probabilities.
        read: (batch, readings, vocab) log-probabilities.
        apart: (batch, readings) divergence of each from final.
        entropies: (batch, readings) of each, in nats.
    """

    count: int
    final: torch.Tensor
    read: torch.Tensor
    apart: torch.Tensor
    entropies: torch.Tensor

    @property
    def raw(self) -> torch.Tensor:
        """(batch, layers, vocab) log-probabilities of the layers as they are."""
        return self.read[:, : self.count]

    @property
    def normed(self) -> torch.Tensor:
        """The same of the normed layers, of the layers as they are where no norm is known."""
        return self.read[:, -self.count :]

    @property
    def divergence(self) -> torch.Tensor:
        """(batch, layers) of raw from final, by which DoLa chooses."""
        return self.apart[:, : self.count]


def project(model: Any, hidden_states: Sequence[torch.Tensor], logits: torch.Tensor) -> Layers:
    """Ask every layer for its next token.

    Args:
        model: a decoder-only model.
        hidden_states: embedding output and every layer's, each (batch, positions, hidden).
        logits: (batch, vocab) float32 of the last position.
    """
    head, norm = model.get_output_embeddings(), final_norm(model)
    hidden = torch.stack([state[:, -1] for state in hidden_states[:-1]], dim=1)
    final = torch.log_softmax(logits, dim=-1)
    # In one product, so that the head's weights are read once.
    states = hidden if norm is None else torch.cat([hidden, norm(hidden)], dim=1)
    read = head(states).float().to(logits.device)
    for part in _portions(read):
        part.copy_(torch.log_softmax(part, dim=-1))
    return Layers(hidden.shape[1], final, read, *compared(read, final))


def _portions(read: torch.Tensor) -> Sequence[torch.Tensor]:
    """Return (batch, readings, vocab) numbers in parts, each of some readings.

    A CPU is several times as quick with what stays in its cache, and asks the system for no memory
    then; elsewhere one part is all.
    """
    if read.device.type != "cpu":
        return (read,)
    return read.split(max(1, _IN_CACHE // (read.shape[0] * read.shape[-1])), dim=1)


def compared(premature: torch.Tensor, final: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (batch, readings) Jensen-Shannon divergence as DoLa measures it, and entropy in nats.

    With M the mean of both distributions the divergence is half of KL(M, final) plus half of
    KL(M, premature), each averaged (not summed) over the vocabulary: tiny numbers, whose order is
    what counts.

    Args:
        premature: (batch, readings, vocab) log-probabilities.
        final: (batch, vocab) log-probabilities.
    """
    final = final[:, None]
    final_probs = quick_exp(final)
    apart, entropy = [], []
    for part in _portions(premature):
        probs = quick_exp(part)
        entropy.append(entropies(part, probs))
        mean = probs.add_(final_probs).mul_(0.5)
        # As torch.nn.functional.kl_div sums it, in a fraction of its time: no M is 0 here.
        more = mean.log().sub_(part, alpha=0.5).sub_(final, alpha=0.5)
        apart.append(more.mul_(mean).mean(-1))
    return torch.cat(apart, dim=1), torch.cat(entropy, dim=1)


def columns_of(layers: Layers, tokens: torch.Tensor) -> Columns:
    """Return (batch, readings + 1, …) numbers of every reading and, as the last, of the model.

    Args:
        layers: what ``project`` returned.
        tokens: (batch,) emitted ids, whose rank and log-probability are wanted.
    """
    final = layers.final[:, None]
    nothing = torch.zeros_like(layers.apart[:, :1])
    last = entropies(final, quick_exp(final))
    found = [_told(part, tokens) for part in (*_portions(layers.read), final)]
    ranks, logprobs, ids, values = (torch.cat(parts, dim=1) for parts in zip(*found, strict=True))
    return {
        "divergence": torch.cat([layers.apart, nothing], dim=1),
        "entropy": torch.cat([layers.entropies, last], dim=1),
        "rank": ranks,
        "logprob": logprobs,
        "top_ids": ids,
        "top_probs": values.exp(),
    }


def _told(
    part: torch.Tensor, tokens: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the rank and log-probability of the tokens, and ids and log-probabilities of the top."""
    own = part.gather(-1, tokens[:, None, None].expand(-1, part.shape[1], 1))
    # Counted in floats, which is exact below 2**24: a CPU takes four times as long over booleans.
    above = torch.gt(part, own, out=torch.empty_like(part)).sum(-1)
    top = part.topk(min(TOP, part.shape[-1]), dim=-1)
    return above, own[..., 0], top.indices, top.values


def readings(numbers: Numbers, layers: int) -> tuple[LayerReading, ...]:
    """Read one row's numbers of ``columns_of``.

    Args:
        numbers: of one row.
        layers: decoder layers; what follows the last of them is the model's own output.
    """
    output = len(numbers["rank"]) - 1
    result = []
    for layer in range(layers + 1):
        last = layer == layers
        raw = _reading(numbers, output if last else layer)
        # Where no norm is known, the normed readings are the others.
        normed = raw if last else _reading(numbers, output - layers + layer)
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
    numbers: Numbers, place: int
) -> tuple[float, float, int, float, tuple[tuple[int, float], ...]]:
    """Return divergence, entropy, rank, log-probability and top of one reading."""
    apart, entropy, rank, logprob = (
        numbers[name][place] for name in ("divergence", "entropy", "rank", "logprob")
    )
    ids, probs = numbers["top_ids"], numbers["top_probs"]
    width = len(ids) // len(numbers["rank"])
    group = slice(place * width, (place + 1) * width)
    top = tuple((int(i), short(p)) for i, p in zip(ids[group], probs[group], strict=True))
    return short(apart), short(entropy), int(rank), short(logprob), top


def short(value: float) -> float:
    """Round to five significant digits: divergences are far below one millionth."""
    return float(f"{value:.5g}") if math.isfinite(value) else value
