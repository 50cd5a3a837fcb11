"""Language models in a few lines: the next token depends on the last one alone, by a table."""

from __future__ import annotations

import itertools
import types
from collections.abc import Iterable, Sequence
from typing import Any

import torch
import transformers
from torch import nn

from engine.loops.drafting.lossless_check import (
    MIN_EXPECTED,
    chi_square_p_value,
    chi_square_statistic,
)
from engine.loops.host_transfer import start_transfer
from engine.loops.recorder import Observation, Recorder, Row


def _config(vocab: int, layers: int = 1) -> Any:
    return transformers.LlamaConfig(
        vocab_size=vocab,
        hidden_size=8,
        num_hidden_layers=layers,
        num_attention_heads=1,
        bos_token_id=None,
        eos_token_id=None,
    )


class _Generates:
    """What a loop asks of a generation model besides its logits."""

    device, dtype = torch.device("cpu"), torch.float32
    generation_config = types.SimpleNamespace(eos_token_id=None)

    def _supports_logits_to_keep(self) -> bool:
        return False

    def _supports_default_dynamic_cache(self) -> bool:
        return False

    def get_output_embeddings(self) -> None:
        return None

    def _update_model_kwargs_for_generation(self, outputs: Any, kwargs: Any, **more: Any) -> Any:
        del outputs, more
        return kwargs

    def prepare_inputs_for_generation(self, ids: torch.Tensor, **kwargs: Any) -> dict[str, Any]:
        return {"input_ids": ids}


class Chain(_Generates):
    """A model whose logits, and states, are the rows of a (vocab, vocab) table."""

    base_model_prefix = "model"

    def __init__(self, table: torch.Tensor) -> None:
        self.config, self.table = _config(len(table)), table

    def forward(self, input_ids: torch.Tensor, **kwargs: Any) -> Any:
        logits = self.table[input_ids]
        return types.SimpleNamespace(logits=logits, hidden_states=(logits,))

    __call__ = forward


class ChainHeads:
    """Heads that guess the next token from the last one alone, by a table; they store nothing."""

    def __init__(self, table: torch.Tensor, count: int) -> None:
        self.config, self.table, self.layers = _config(len(table), count), table, range(count)

    def forward_layer(
        self,
        k: int,
        states: torch.Tensor,
        places: torch.Tensor,
        cache: Any,
        input_ids: torch.Tensor,
    ) -> torch.Tensor:
        assert states.shape[1] == places.shape[1] == input_ids.shape[1]
        return self.table[input_ids]

    def _project_to_logits(self, states: torch.Tensor) -> torch.Tensor:
        return states


class _Layer(nn.Module):
    def __init__(self, table: torch.Tensor) -> None:
        super().__init__()
        self.table = table


class _Layers(nn.Module):
    def __init__(self, tables: Sequence[torch.Tensor], config: Any) -> None:
        super().__init__()
        self.layers, self.config = nn.ModuleList(map(_Layer, tables)), config


class LayeredChain(_Generates, nn.Module):
    """A model whose logits are the sum of its layers' tables, so that it can be left early."""

    base_model_prefix = "model"

    def __init__(self, tables: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.config = _config(len(tables[0]), len(tables))
        self.model = _Layers(tables, self.config)

    def forward(self, input_ids: torch.Tensor, **kwargs: Any) -> Any:
        logits = sum(layer.table[input_ids] for layer in self.model.layers)
        return types.SimpleNamespace(logits=logits)


class Alphabet:
    """A tokenizer with a token a letter; letters it lacks are lost."""

    all_special_ids: tuple[int, ...] = ()
    bos_token_id = 0

    def __init__(self, letters: str) -> None:
        self.letters = letters

    def get_vocab(self) -> dict[str, int]:
        return {letter: i for i, letter in enumerate(self.letters)}

    def convert_ids_to_tokens(self, token_id: int) -> str:
        return self.letters[token_id]

    def __call__(self, text: str, **options: Any) -> dict[str, list[int]]:
        return {"input_ids": [self.letters.index(c) for c in text if c in self.letters]}

    def decode(self, ids: Iterable[int], **options: Any) -> str:
        return "".join(self.letters[i] for i in ids)


class Quick(Recorder):
    """Records the numbers of the verdict only."""

    def observe(
        self, logits: torch.Tensor, input_ids: torch.Tensor, processors: Any
    ) -> Observation:
        for processor in processors:
            logits = processor(input_ids, logits)
        return Observation(logits, logits, logits, [])

    def record(self, seen: Any, chosen: Any, step: int, extra: Any = None) -> list[Row]:
        return [Row((), (), 0.0, 0.0, start_transfer(extra)()[0])]


def p_of_steps(texts: Iterable[Sequence[int]], probs: torch.Tensor) -> float:
    """Return Pearson's p-value of the steps from a token to the next one in chains.

    What is expected fewer than 5 times after a token shares one bin with its next likely others.

    Args:
        texts: ids, the prompt's last one first.
        probs: (vocab, vocab) the exact distribution after every token; a step of probability 0
            that was made gives 0.
    """
    counts = torch.zeros_like(probs, dtype=torch.float64)
    for text in texts:
        for a, b in itertools.pairwise(text):
            counts[a, b] += 1
    if bool((counts[probs == 0] > 0).any()):
        return 0.0
    bins: list[tuple[int, float]] = []
    degrees = 0
    for row, chances in zip(counts, probs.double(), strict=True):
        order, found, seen, expected = chances.argsort(), [], 0.0, 0.0
        for token in order.tolist():
            seen, expected = seen + float(row[token]), expected + float(row.sum() * chances[token])
            if expected >= MIN_EXPECTED:
                found.append((int(seen), expected))
                seen = expected = 0.0
        bins += found
        degrees += max(0, len(found) - 1)
    return chi_square_p_value(chi_square_statistic(bins), degrees)
