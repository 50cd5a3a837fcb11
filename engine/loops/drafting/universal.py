"""Drafting with a model of another tokenizer.

Greedy: the draft's text is encoded again with the target's tokenizer (universal assisted
generation). Sampling: the draft proposes only tokens that both vocabularies have, so that its
probabilities can be compared with the target's (2502.05202). Either way the draft reads the whole
text, encoded freshly in its own ids, and its weights are never changed.
"""

from __future__ import annotations

from typing import Any

import torch

from engine.loops.drafting.drafter import (
    WARPERS,
    Draft,
    ModelDrafter,
    RunContext,
    followed,
    run_processors,
)
from engine.models.text import REPLACEMENT, Pieces

SHARED_PROCESSORS = (
    *WARPERS,
    "RepetitionPenaltyLogitsProcessor",
    "NoRepeatNGramLogitsProcessor",
    "LogitNormalization",
)
LOOKBEHIND = 10


class UniversalDrafter(ModelDrafter):
    """What both variants share.

    Args:
        context: the run.
        target: the target's LoadedModel (its tokenizer is what counts here).
        assistant: the draft's LoadedModel.
    """

    name = "universal"

    def __init__(self, context: RunContext, target: Any, assistant: Any) -> None:
        super().__init__(context, assistant.model)
        self.target, self.assistant = target, assistant

    def _own_ids(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Return the text so far in the draft's ids, (1, n) with n at least 1."""
        text = self.target.tokenizer.decode(
            input_ids[0], skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        ids = self.assistant.tokenizer(text)["input_ids"]
        if not ids:
            bos = self.assistant.tokenizer.bos_token_id
            ids = [0 if bos is None else bos]
        return input_ids.new_tensor([ids])

    def _nothing(self, input_ids: torch.Tensor, why: str, **facts: Any) -> Draft:
        reason = self.schedule.told(0, why)
        return Draft(input_ids.new_tensor([]), None, self.schedule.length, reason, **facts)


class ReencodingDrafter(UniversalDrafter):
    """Greedy variant: draft text, encode it with the target's tokenizer, align, keep what is new."""

    def __init__(self, context: RunContext, target: Any, assistant: Any) -> None:
        super().__init__(context, target, assistant)
        self.processors = [p for p in context.processors if type(p).__name__ in SHARED_PROCESSORS]
        # Special tokens have no text that the target could read, except that one of them ends it.
        special = set(assistant.tokenizer.all_special_ids) - set(assistant.eos_token_ids)
        self.unspeakable = torch.tensor(sorted(special), dtype=torch.long, device="cpu")

    def draft(self, input_ids: torch.Tensor) -> Draft:
        """Return the target's ids of what the draft wrote."""
        if input_ids.shape[1] + 1 >= self.context.max_length:
            return self._nothing(input_ids, "the token budget leaves one token, the target's own")
        self.forward.begin()
        before, own = self.forward.passes, self._own_ids(input_ids)

        def scores_after(drafted: list[int]) -> torch.Tensor:
            ids = followed(own, drafted)
            logits = self.forward.logits(ids)
            logits[:, self.unspeakable.to(logits.device)] = -torch.inf
            return run_processors(self.processors, ids, logits)

        limit = min(self.schedule.length, self.forward.room(own.shape[1]))
        drafted, _, stop = self._continue(
            limit, scores_after, self.assistant.eos_token_ids, do_sample=False
        )
        facts: dict[str, Any] = {
            "forwards": self.forward.passes - before,
            "own": tuple(self.assistant.pieces[i] for i in drafted),
        }
        tokens, lost = self._in_target_ids(input_ids, followed(own, drafted), own.shape[1])
        tokens = tokens[: self.context.max_length - input_ids.shape[1]]
        facts |= {"reencoded": tuple(tokens), "lost": lost}
        if not tokens:
            return self._nothing(input_ids, "nothing new after encoding it again", **facts)
        reason = self.schedule.told(len(drafted), stop)
        return Draft(input_ids.new_tensor(tokens), None, self.schedule.length, reason, **facts)

    def _in_target_ids(
        self, input_ids: torch.Tensor, own: torch.Tensor, start: int
    ) -> tuple[list[int], str]:
        """Encode the draft and a few tokens before it; return what is new, and what was lost."""
        window = own[0, max(0, start - LOOKBEHIND) :]
        text = self.assistant.tokenizer.decode(
            window, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        # A character cut in the middle would come back as three other tokens.
        text, broken, rest = text.partition(REPLACEMENT)
        encoded = self.target.tokenizer(text)["input_ids"]
        known = input_ids[0, -len(encoded) :].tolist() if encoded else []
        found = longest_run(encoded, known)
        if found is None:
            return [], self.assistant.tokenizer.decode(own[0, start:], skip_special_tokens=True)
        row, column, length = found
        overhang = len(known) - (column + length)
        lost = encoded[row + length : row + length + overhang]
        return encoded[row + length + overhang :], self.target.tokenizer.decode(
            lost
        ) + broken + rest


def longest_run(a: list[int], b: list[int]) -> tuple[int, int, int] | None:
    """Return (start in a, start in b, length) of the longest common run; the first one of a tie."""
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
    """Sampling variant: propose from the tokens that both vocabularies have, by content."""

    nothing_allowed = "the two vocabularies share no token that is allowed here"

    def __init__(self, context: RunContext, target: Any, assistant: Any) -> None:
        super().__init__(context, target, assistant)
        pairs = shared_tokens(target, assistant)
        device = context.input_ids.device
        self.own_index = torch.tensor(list(pairs.values()), dtype=torch.long, device=device)
        self.target_index = torch.tensor(list(pairs), dtype=torch.long, device=device)
        self.to_own = pairs

    def draft(self, input_ids: torch.Tensor) -> Draft:
        """Return tokens with the draft's probabilities in the target's vocabulary."""
        room = self.context.max_length - input_ids.shape[1] - 1
        self.forward.begin()
        before, own = self.forward.passes, self._own_ids(input_ids)
        limit = min(self.schedule.length, room, self.forward.room(own.shape[1]))

        def scores_after(tokens: list[int]) -> torch.Tensor:
            theirs = [self.to_own[token] for token in tokens]
            return self._scores(followed(input_ids, tokens), followed(own, theirs))

        tokens, scores, stop = self._continue(
            limit, scores_after, self.context.eos_token_ids, do_sample=True
        )
        return Draft(
            input_ids.new_tensor(tokens),
            scores,
            self.schedule.length,
            self.schedule.told(len(tokens), stop),
            forwards=self.forward.passes - before,
            own=tuple(self.assistant.pieces[self.to_own[token]] for token in tokens),
            reencoded=tuple(tokens),
        )

    def _scores(self, ids: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
        """Return (1, target vocab) processed scores; tokens that only one side has are -inf."""
        logits = self.forward.logits(own)
        scores = logits.new_full((1, self.target.vocab_size), -torch.inf)
        scores[:, self.target_index] = logits[:, self.own_index]
        return run_processors(self.context.processors, ids, scores)


def shared_tokens(target: Any, assistant: Any) -> dict[int, int]:
    """Return target id -> draft id of the tokens whose text both vocabularies have.

    Tokens are compared by the text they stand for, whatever sign a tokenizer writes for a space;
    of the special tokens only the one that ends a text is shared.
    """
    theirs = _by_text(assistant)
    pairs = {i: theirs[text] for text, i in _by_text(target).items() if text in theirs}
    if target.eos_token_ids and assistant.eos_token_ids:
        pairs[target.eos_token_ids[0]] = assistant.eos_token_ids[0]
    return dict(sorted(pairs.items()))


def _by_text(loaded: Any) -> dict[str, int]:
    pieces = Pieces(loaded.tokenizer)
    special = set(loaded.tokenizer.all_special_ids)
    ids = sorted(i for i in loaded.tokenizer.get_vocab().values() if i < loaded.vocab_size)
    return {pieces[i]: i for i in reversed(ids) if i not in special}
