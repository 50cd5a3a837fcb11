"""Tokens of documents on one device, and random rows of them: what training on a GPU reads."""

from __future__ import annotations

from typing import Any

import torch

_SENTENCE_ENDS = (".", "!", "?", '."', '!"', '?"')
_LEAST_TOKENS = 24
"""A row that starts inside a document has at least this many of its tokens."""


class Documents:
    """Documents one after the other, each ended by id 0.

    Args:
        texts: the documents.
        tokenizer: a ``tokenizers.Tokenizer`` whose id 0 ends a document.
        device: where the tokens are.
    """

    def __init__(self, texts: list[str], tokenizer: Any, device: str) -> None:
        encoded = [[*e.ids, 0] for e in tokenizer.encode_batch(texts)]
        lengths = torch.tensor([len(ids) for ids in encoded], dtype=torch.long)
        self.flat = torch.tensor([i for ids in encoded for i in ids], device=device)
        ends = lengths.cumsum(0)
        self.first = (ends - lengths).to(device)
        """(documents,) where each begins."""
        self.end_at = torch.repeat_interleave(ends, lengths).to(device)
        """(tokens,) where the document of each token ends."""
        ending = [
            tokenizer.decode([i]).endswith(_SENTENCE_ENDS)
            for i in range(tokenizer.get_vocab_size())
        ]
        after = torch.tensor(ending, device=device)[self.flat].roll(1)
        left = self.end_at - torch.arange(len(self.flat), device=device)
        self.inside = (after & (left >= _LEAST_TOKENS)).nonzero().flatten()
        """Where a sentence begins."""

    def __len__(self) -> int:
        return len(self.flat)

    def packed(self, rows: int, length: int) -> torch.Tensor:
        """Return (rows, length) tokens from anywhere, across the ends of documents."""
        start = torch.randint(len(self.flat) - length, (rows, 1), device=self.flat.device)
        return self.flat[start + torch.arange(length, device=self.flat.device)]

    def windows(self, rows: int, length: int) -> torch.Tensor:
        """Return (rows, length) tokens of one document each, filled up with 0.

        Every second row begins a document, the others a sentence.
        """
        half = rows // 2
        start = torch.cat([_choose(self.first, half), _choose(self.inside, rows - half)])[:, None]
        place = start + torch.arange(length, device=start.device)
        tokens = self.flat[place.clamp(max=len(self.flat) - 1)]
        return torch.where(place < self.end_at[start], tokens, 0)


def _choose(values: torch.Tensor, count: int) -> torch.Tensor:
    return values[torch.randint(len(values), (count,), device=values.device)]
