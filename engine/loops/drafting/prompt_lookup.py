"""Drafting without a model: copy the tokens that followed an earlier match of the last n-gram."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# torch does not say what Tensor.tolist() returns.
from __future__ import annotations

import numpy as np
import torch

from engine.loops.drafting.draft_forward import free_positions
from engine.loops.drafting.drafter import Draft, Drafter, RunContext, is_sampling_filter
from engine.loops.recorder import run_processors
from engine.messages import Message

NO_POSITIONS = "the model has no position for more"
_FORBIDDEN = float(np.finfo(np.float32).min)


class PromptLookupDrafter(Drafter):
    """Finds the longest, then leftmost, earlier occurrence of the text's last tokens.

    The copy is cut before end-of-sequence and before a token that a processor removes. Sampling
    filters are not asked, since copied tokens have no probabilities.

    Args:
        context: the run; prompt_lookup_num_tokens and max_matching_ngram_size come from it.
    """

    name = "prompt_lookup"

    def __init__(self, context: RunContext) -> None:
        config = context.generation_config
        self.context = context
        self.length: int = config.prompt_lookup_num_tokens
        self.longest: int = config.max_matching_ngram_size or 2
        # transformers runs warpers too, over made-up equal scores: some then remove copied tokens.
        self.processors = [p for p in context.processors if not is_sampling_filter(p)]
        self.eos = context.eos_token_ids

    def draft(self, input_ids: torch.Tensor) -> Draft:
        """Return the copied tokens, none without a match."""
        ids: list[int] = input_ids[0].tolist()
        if len(ids) + 1 >= self.context.max_length:
            return self._empty_draft(
                input_ids, "the token budget leaves one token, the main model's own"
            )
        free = free_positions(self.context.model, len(ids))
        if not free:
            return self._empty_draft(input_ids, NO_POSITIONS)
        cut_before = ""
        for size in range(min(self.longest, len(ids) - 1), 0, -1):
            tail = ids[-size:]
            for start in range(len(ids) - size):
                if ids[start : start + size] != tail:
                    continue
                copied = ids[start + size : start + size + min(self.length, free)]
                allowed = self._allowed_prefix(input_ids, copied)
                if not allowed:
                    cut_before = "what followed it is forbidden"
                    continue
                return self._make_draft(input_ids, size, start, copied, allowed)
        return self._empty_draft(input_ids, cut_before or "the last tokens occur nowhere before")

    def _make_draft(
        self, input_ids: torch.Tensor, size: int, start: int, copied: list[int], allowed: list[int]
    ) -> Draft:
        before_eos = next((i for i, t in enumerate(allowed) if t in self.eos), len(allowed))
        tokens = allowed[:before_eos]
        if not tokens:
            return self._empty_draft(input_ids, "the text ended where it was found")
        why = "all that was asked for"
        if len(tokens) < len(allowed):
            why = "the end of the text follows"
        elif len(allowed) < len(copied):
            why = "the next token is forbidden"
        elif len(copied) == free_positions(self.context.model, input_ids.shape[1]) < self.length:
            why = NO_POSITIONS
        elif len(copied) < self.length:
            why = "the text so far ends there"
        reason = Message("asked for {n}; copied {m}: {why}", n=self.length, m=len(tokens), why=why)
        return Draft(
            input_ids.new_tensor(tokens),
            None,
            self.length,
            reason,
            match=(size, start, len(tokens)),
        )

    def _empty_draft(self, input_ids: torch.Tensor, why: str) -> Draft:
        reason = Message("asked for {n}; copied {m}: {why}", n=self.length, m=0, why=why)
        return Draft(input_ids.new_tensor([]), None, self.length, reason)

    def _allowed_prefix(self, input_ids: torch.Tensor, copied: list[int]) -> list[int]:
        """Return the copy up to the first token that a processor removes."""
        if not self.processors:
            return copied
        vocab = self.context.model.config.get_text_config(decoder=True).vocab_size
        # Equal scores: only a processor that removes the token can change the result.
        level = torch.ones((1, vocab), device=input_ids.device)
        ids = input_ids
        for count, token in enumerate(copied):
            if run_processors(self.processors, ids, level)[0][0, token] <= _FORBIDDEN:
                return copied[:count]
            ids = torch.cat([ids, ids.new_tensor([[token]])], dim=-1)
        return copied
