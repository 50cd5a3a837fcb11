"""Drafting with heads that guess several tokens ahead, from the model's own last states (2404.19737)."""

from __future__ import annotations

import math
from typing import Any

import torch

from engine.loops.drafting.drafter import (
    NAN_NOTE,
    Draft,
    Drafter,
    RunContext,
    choose_token,
    with_drafted_tokens,
)
from engine.loops.recorder import run_processors
from engine.messages import Message
from engine.model_code import FORWARD_PASS, ModelCall


class MtpDrafter(Drafter):
    """Drafts one token with each head.

    Head k reads, at every place, the state of the head before it (the first: the model's last) and the
    token k places on. What it read of rejected tokens is dropped and read again.

    Args:
        context: the run.
        heads: transformers' ``MtpModel``; see ``mtp_heads.load_heads``.
    """

    name = "mtp"
    reads_states = True

    def __init__(self, context: RunContext, heads: Any) -> None:
        from transformers.cache_utils import MtpCache

        self.context, self.heads, self.count = context, heads, len(heads.layers)
        self.cache: Any = MtpCache(config=heads.config)
        self.cache.activate_past_recording()
        self.states: torch.Tensor | None = None
        self.read = 0
        """Places that every head has read with tokens that are in the text."""

    def learn_states(self, states: torch.Tensor, length: int) -> None:
        """Take the (1, n, width) last states of the n verified tokens up to a length."""
        # Without a cache, a pass shows the states of the whole text again.
        known = [] if self.states is None else [self.states[:, : length - states.shape[1]]]
        self.states = torch.cat([*known, states], dim=1)

    def draft(self, input_ids: torch.Tensor) -> Draft:
        """Return up to one token for each head, leaving one of the budget to the target."""
        if self.states is None:
            return self._empty_draft(input_ids, "the heads read the model's own states first")
        limit = min(self.count, self.context.max_length - input_ids.shape[1] - 1)
        if limit <= 0:
            return self._empty_draft(
                input_ids, "the token budget leaves one token, the target's own"
            )
        tokens, scores, stop = self._draft_tokens(input_ids, self.states, limit)
        reason = Message("asked for {n}; drafted {m}: {why}", n=self.count, m=len(tokens), why=stop)
        drafted = input_ids.new_tensor(tokens)
        rows = torch.cat(scores) if scores else None
        return Draft(drafted, rows, self.count, reason, forwards=len(tokens))

    def _draft_tokens(
        self, input_ids: torch.Tensor, known: torch.Tensor, limit: int
    ) -> tuple[list[int], list[torch.Tensor], str]:
        length = input_ids.shape[1]
        self._drop_unverified(length)
        states, start = known[:, self.read :], self.read
        tokens: list[int] = []
        rows: list[torch.Tensor] = []
        stop = "all that was asked for" if limit == self.count else "the token budget"
        for k in range(limit):
            ids = with_drafted_tokens(input_ids, tokens)
            # Head k pairs the state of place i with the token at i + k + 1.
            states, logits = self._run_head(k, states, ids[:, start + k + 1 :], start)
            scores = run_processors(self.context.processors, ids, logits)[0]
            most = float(scores.max())
            if math.isnan(most):
                stop, self.note = "its scores became NaN", NAN_NOTE
                break
            if most == -math.inf:
                stop = "no token is allowed here"
                break
            tokens.append(choose_token(scores, self.context.do_sample, self.context.generator))
            rows.append(scores)
            if tokens[-1] in self.context.eos_token_ids:
                stop = "it ends the text"
                break
        return tokens, rows, stop

    @ModelCall(FORWARD_PASS)
    def _run_head(
        self, k: int, states: torch.Tensor, ids: torch.Tensor, start: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the states of head k at new places, and (1, vocab) float32 logits of the last."""
        places = torch.arange(start, start + ids.shape[1], device=ids.device)[None] + k + 1
        states = self.heads.forward_layer(k, states, places, self.cache, input_ids=ids)
        logits = self.heads._project_to_logits(states[:, -1:])
        return states, logits[:, -1].to(dtype=torch.float32, copy=True)

    def _drop_unverified(self, length: int) -> None:
        """Crop every head's cache to the places whose later tokens are all in the text."""
        # The last token of the text is the target's own, which no head has read.
        keep = max(0, length - 1 - self.count)
        for layer in self.cache.layers:
            stored = layer.get_seq_length()
            if stored > keep:
                layer.crop(keep - stored)
        self.read = min([keep, *(layer.get_seq_length() for layer in self.cache.layers)])

    def _empty_draft(self, input_ids: torch.Tensor, why: str) -> Draft:
        reason = Message("asked for {n}; drafted {m}: {why}", n=self.count, m=0, why=why)
        return Draft(input_ids.new_tensor([]), None, self.count, reason)
