"""Drafting with a model of another tokenizer.

Greedy: the draft's text is re-encoded with the target's tokenizer (universal assisted generation).
Sampling: the draft model proposes only tokens of both vocabularies, so that its probabilities
can be compared with the target's (2502.05202). Both encode the whole text again in every round,
and neither changes the draft model's weights.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# torch does not say what Tensor.tolist() returns.
from __future__ import annotations

from typing import Any

import torch

from engine.loops.drafting.draft_forward import free_positions
from engine.loops.drafting.drafter import (
    Draft,
    ModelDrafter,
    RunContext,
    is_sampling_filter,
    with_drafted_tokens,
)
from engine.loops.recorder import run_processors
from engine.models.text import REPLACEMENT, Pieces

_SHARED_PROCESSORS = (
    "RepetitionPenaltyLogitsProcessor",
    "NoRepeatNGramLogitsProcessor",
    "LogitNormalization",
)
LOOKBEHIND = 10


class UniversalDrafter(ModelDrafter):
    """Base of both variants.

    Args:
        context: the run.
        target: the target's LoadedModel, for its tokenizer.
        assistant: the draft model's LoadedModel.
    """

    name = "universal"

    def __init__(self, context: RunContext, target: Any, assistant: Any) -> None:
        super().__init__(context, assistant.model)
        self.target, self.assistant = target, assistant

    def _encode_for_draft(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Return the text in the draft model's ids, (1, n) with n at least 1."""
        text = self.target.tokenizer.decode(
            input_ids[0], skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        ids = self.assistant.tokenizer(text)["input_ids"]
        if not ids:
            # A model cannot read an empty text.
            bos = self.assistant.tokenizer.bos_token_id
            ids = [0 if bos is None else bos]
        return input_ids.new_tensor([ids])

    def _empty_draft(self, input_ids: torch.Tensor, why: str, **facts: Any) -> Draft:
        reason = self.schedule.explain_length(0, why)
        return Draft(input_ids.new_tensor([]), None, self.schedule.length, reason, **facts)


class ReencodingDrafter(UniversalDrafter):
    """Greedy variant: draft text, re-encode it for the target, align, keep the new part."""

    def __init__(self, context: RunContext, target: Any, assistant: Any) -> None:
        super().__init__(context, target, assistant)
        self.processors = [p for p in context.processors if _is_shared(p)]
        # Special tokens have no text for the target to encode; only end-of-sequence is allowed.
        special = set(assistant.tokenizer.all_special_ids) - set(assistant.eos_token_ids)
        self.unspeakable = torch.tensor(sorted(special), dtype=torch.long, device="cpu")

    def draft(self, input_ids: torch.Tensor) -> Draft:
        """Return the target's ids of the drafted text."""
        if input_ids.shape[1] + 1 >= self.context.max_length:
            return self._empty_draft(
                input_ids, "the token budget leaves one token, the main model's own"
            )
        self.forward.begin_round()
        before, own = self.forward.passes, self._encode_for_draft(input_ids)

        def scores_after(drafted: list[int]) -> torch.Tensor:
            ids = with_drafted_tokens(own, drafted)
            logits = self.forward.logits(ids)
            logits[:, self.unspeakable.to(logits.device)] = -torch.inf
            return run_processors(self.processors, ids, logits)[0]

        free = free_positions(self.assistant.model, own.shape[1])
        limit = min(self.schedule.length, free)
        drafted, _, stop = self._draft_tokens(
            limit, scores_after, self.assistant.eos_token_ids, do_sample=False
        )
        facts: dict[str, Any] = {
            "forwards": self.forward.passes - before,
            "own": tuple(self.assistant.pieces[i] for i in drafted),
        }
        tokens, lost = self._to_target_ids(
            input_ids, with_drafted_tokens(own, drafted), own.shape[1]
        )
        tokens = tokens[: self.context.max_length - input_ids.shape[1]]
        facts |= {"reencoded": tuple(tokens), "lost": lost}
        if not tokens:
            return self._empty_draft(input_ids, "nothing new after encoding it again", **facts)
        reason = self.schedule.explain_length(len(drafted), stop)
        return Draft(input_ids.new_tensor(tokens), None, self.schedule.length, reason, **facts)

    def _to_target_ids(
        self, input_ids: torch.Tensor, own: torch.Tensor, start: int
    ) -> tuple[list[int], str]:
        """Re-encode the draft with some context; return the new ids and the lost text."""
        # A few known tokens come first, so the new ones can be aligned.
        window = own[0, max(0, start - LOOKBEHIND) :]
        text = self.assistant.tokenizer.decode(
            window, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        # An incomplete character would be re-encoded as three other tokens.
        text, broken, rest = text.partition(REPLACEMENT)
        encoded: list[int] = self.target.tokenizer(text)["input_ids"]
        recent_ids: list[int] = input_ids[0, -len(encoded) :].tolist() if encoded else []
        # Tokenizers cut text differently, so the new part begins where both readings last agree.
        found = longest_common_run(encoded, recent_ids)
        if found is None:
            return [], self.assistant.tokenizer.decode(own[0, start:], skip_special_tokens=True)
        row, column, length = found
        # Known tokens behind the common run: as many of the new ids are taken to stand for them.
        overhang = len(recent_ids) - (column + length)
        lost = encoded[row + length : row + length + overhang]
        return encoded[row + length + overhang :], self.target.tokenizer.decode(
            lost
        ) + broken + rest


def longest_common_run(a: list[int], b: list[int]) -> tuple[int, int, int] | None:
    """Return (start in a, start in b, length) of the longest, then first, common run; or None."""
    best: tuple[int, int, int] | None = None
    above: list[int] = []
    ending: list[tuple[int, int, int]] = []
    for i, x in enumerate(a):
        row = [0] * len(b)
        for j, y in enumerate(b):
            if x == y:
                row[j] = 1 + (above[j - 1] if i and j else 0)
                ending.append((row[j], i - row[j] + 1, j - row[j] + 1))
        above = row
    for length, i, j in ending:
        if best is None or (length, -i, -j) > (best[2], -best[0], -best[1]):
            best = (i, j, length)
    return best


class IntersectionDrafter(UniversalDrafter):
    """Sampling variant: propose only tokens whose text is in both vocabularies."""

    nothing_allowed = "the two vocabularies share no token that is allowed here"

    def __init__(self, context: RunContext, target: Any, assistant: Any) -> None:
        super().__init__(context, target, assistant)
        pairs = shared_tokens(target, assistant)
        device = context.input_ids.device
        self.own_index = torch.tensor(list(pairs.values()), dtype=torch.long, device=device)
        self.target_index = torch.tensor(list(pairs), dtype=torch.long, device=device)
        self.to_own = pairs

    def draft(self, input_ids: torch.Tensor) -> Draft:
        """Return tokens with the draft model's probabilities in the target's vocabulary."""
        own = self._encode_for_draft(input_ids)

        def scores_after(tokens: list[int]) -> torch.Tensor:
            theirs = [self.to_own[token] for token in tokens]
            return self._target_scores(
                with_drafted_tokens(input_ids, tokens), with_drafted_tokens(own, theirs)
            )

        draft = self._draft_for_target(input_ids, own.shape[1], scores_after)
        tokens: list[int] = draft.tokens.tolist()
        draft.reencoded = tuple(tokens)
        draft.own = tuple(self.assistant.pieces[self.to_own[token]] for token in draft.reencoded)
        return draft

    def _target_scores(self, ids: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
        """Return (1, target vocab) processed scores; tokens of one side only are -inf."""
        logits = self.forward.logits(own)
        scores = logits.new_full((1, self.target.vocab_size), -torch.inf)
        # transformers 5.23 prunes the draft's head instead, in the order of a dictionary: its columns then
        # belong to other tokens, and the draft model stays changed.
        scores[:, self.target_index] = logits[:, self.own_index]
        return run_processors(self.context.processors, ids, scores)[0]


def shared_tokens(target: Any, assistant: Any) -> dict[int, int]:
    """Return target id -> draft id for every token in both vocabularies.

    Tokens are compared by their text, since tokenizers mark a space differently. Of the special
    tokens only end-of-sequence is shared.
    """
    theirs = _ids_by_text(assistant)
    pairs = {i: theirs[text] for text, i in _ids_by_text(target).items() if text in theirs}
    if target.eos_token_ids and assistant.eos_token_ids:
        pairs[target.eos_token_ids[0]] = assistant.eos_token_ids[0]
    return dict(sorted(pairs.items()))


def _ids_by_text(loaded: Any) -> dict[str, int]:
    pieces = Pieces(loaded.tokenizer)
    special = set(loaded.tokenizer.all_special_ids)
    ids = sorted(i for i in loaded.tokenizer.get_vocab().values() if i < loaded.vocab_size)
    # Reversed, so the lowest id wins among tokens of the same text.
    return {pieces[i]: i for i in reversed(ids) if i not in special}


def _is_shared(processor: object) -> bool:
    """Return whether the draft model uses a processor of the target, too."""
    return is_sampling_filter(processor) or type(processor).__name__ in _SHARED_PROCESSORS
