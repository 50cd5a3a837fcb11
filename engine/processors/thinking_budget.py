"""The thinking budget: closes a model's thinking section after a number of tokens, as vLLM and llama.cpp do."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# torch does not say what Tensor.tolist() returns.
from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from engine.declare.params import Integer, Text, param
from engine.messages import Message
from engine.number_text import quote_token
from engine.processors.filter import Filter
from engine.processors.removal import Removal, RemovalCase, removal_until_off
from engine.processors.scores import no_stretch
from engine.settings import SETTINGS
from engine.statistics.term import Term

if TYPE_CHECKING:
    import torch

MARKS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
)
"""The texts that begin and end a thinking section, of the models that have one."""
SWITCHES = ("thinking_token_budget", "min_thinking_tokens")
"""The parameters of which each alone needs the processor."""


class ThinkingBudgetLogitsProcessor:
    """Forces the end of a thinking section at a budget, and forbids its end before a minimum.

    Its state follows from the ids, so it serves beams, drafts and continued texts alike.

    Args:
        tokenizer: a transformers tokenizer.
        marks: the texts that begin and end a thinking section.
        start: number of ids before the text; the section may begin in them.
        forced: ids to write at the budget: a message and the end mark.
        budget: the most tokens to write inside the section; None is any number.
        minimum: the number of tokens inside it before which its end is forbidden.
    """

    def __init__(
        self,
        tokenizer: Any,
        marks: tuple[str, str],
        start: int,
        forced: tuple[int, ...] = (),
        budget: int | None = None,
        minimum: int = 0,
    ) -> None:
        self.tokenizer, self.marks, self.start = tokenizer, marks, start
        self.forced, self.budget, self.minimum = forced, budget, minimum
        self._special = set(tokenizer.all_special_ids)
        self._closing: dict[int, list[int]] = {}

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return (rows, vocab) scores: only the forced token is left, or no token that ends the section."""
        scores = scores.clone()
        for row, ids in enumerate(input_ids.tolist()):
            opened = self._find_open(ids)
            token = self._forced_after(ids, opened)
            if token is not None:
                scores[row] = -float("inf")
                scores[row, token] = 0
            elif opened is not None and len(ids) - opened < self.minimum:
                scores[row, self.find_closing(ids, scores.shape[-1])] = -float("inf")
        return scores

    def find_sections(self, ids: Sequence[int]) -> list[tuple[int, int, bool]]:
        """Return the thinking sections that reach into the text, in order.

        Returns:
            (index of the first id that was written inside, index after the end mark, whether it is closed).
            A section of the prompt begins with the text.
        """
        begin, end = self.marks
        pieces = [piece or "" for piece in self.tokenizer.convert_ids_to_tokens(list(ids))]
        # A control token ends a turn: a mark before it is quoted or belongs to an earlier answer.
        turns = [
            i for i in range(self.start) if ids[i] in self._special and pieces[i] not in self.marks
        ]
        first = turns[-1] + 1 if turns else 0
        text = "".join(pieces[first:])
        places = [0]
        for piece in pieces[first:]:
            places.append(places[-1] + len(piece))
        found: list[tuple[int, int, bool]] = []
        prompt = places[max(self.start - first, 0)]
        at = max(text.rfind(begin, 0, prompt), 0)
        while (at := text.find(begin, at)) >= 0:
            inside = at + len(begin)
            closed = text.find(end, inside)
            at = closed + len(end) if closed >= 0 else len(text)
            # A token that holds the last character of a mark belongs to the mark.
            opened, after = bisect_left(places, inside), bisect_left(places, at)
            if first + after > self.start or closed < 0:
                found.append((max(first + opened, self.start), first + after, closed >= 0))
            if closed < 0:
                break
        return found

    def find_cut(self, ids: Sequence[int], opened: int) -> int | None:
        """Return the index at which the budget of a section is used up; None before it."""
        if self.budget is None:
            return None
        full = opened + self.budget
        # A character may need several tokens, at most four.
        for cut in range(full, full + 4):
            if cut > len(ids):
                return None
            if not self.tokenizer.decode(list(ids[opened:cut])).endswith("\ufffd"):
                return cut
        return full

    def find_forced(self, ids: Sequence[int]) -> int | None:
        """Return the id that must come next, None if the model may choose."""
        return self._forced_after(ids, self._find_open(ids))

    def find_closing(self, ids: Sequence[int], vocab_size: int) -> list[int]:
        """Return the ids that would complete the end mark."""
        end = self.marks[1]
        pieces = self.tokenizer.convert_ids_to_tokens(list(ids[-len(end) :]))
        tail = "".join(piece or "" for piece in pieces)
        return [
            token
            for n in range(len(end))
            if tail.endswith(end[:n])
            for token in self._tokens_with(n, vocab_size)
        ]

    def _find_open(self, ids: Sequence[int]) -> int | None:
        opened = [first for first, _, closed in self.find_sections(ids) if not closed]
        return opened[-1] if opened else None

    def _forced_after(self, ids: Sequence[int], opened: int | None) -> int | None:
        cut = None if opened is None else self.find_cut(ids, opened)
        if cut is None or len(ids) - cut >= len(self.forced):
            return None
        return self.forced[len(ids) - cut]

    def _tokens_with(self, known: int, vocab_size: int) -> list[int]:
        """Return the ids that complete the end mark after its first ``known`` characters."""
        if known not in self._closing:
            size = min(vocab_size, len(self.tokenizer))
            pieces = self.tokenizer.convert_ids_to_tokens(list(range(size)))
            rest = self.marks[1][known:]
            self._closing[known] = [
                i
                for i, piece in enumerate(pieces)
                if piece and (piece.startswith(rest) if known else rest in piece)
            ]
        return self._closing[known]


def limits_thinking(config: Any) -> bool:
    """Return whether a strategy's config sets a budget or a minimum."""
    return any(getattr(config, name, None) is not None for name in SWITCHES)


def explain(case: RemovalCase) -> Removal:
    """Return what the budget wrote instead, or that the section is too short to end."""
    forced = case.processor.find_forced(case.text)
    if forced is None:
        why = Message(
            "The thinking section may end only after {n} tokens, and {name} would end it.",
            n=case.processor.minimum,
            name=quote_token(case.piece(case.token_id)),
        )
        return removal_until_off(why, "min_thinking_tokens", None)
    why = Message(
        "The thinking budget of {n} tokens is used up, so {piece} is forced.",
        n=case.processor.budget,
        piece=quote_token(case.piece(forced)),
    )
    return removal_until_off(why, "thinking_token_budget", None)


FILTER = Filter(
    name="ThinkingBudget",
    title="Thinking budget",
    parameter="thinking_token_budget",
    off=None,
    params={
        "thinking_token_budget": param(
            Integer(
                label="Thinking budget",
                group="length",
                optional=True,
                minimum=0,
                maximum=SETTINGS.max_new_tokens,
                slider_maximum=256,
                help="The most tokens inside the thinking section, which is then closed. Off is any number.",
            ),
            None,
        ),
        "reasoning_budget_message": param(
            Text(
                label="Budget message",
                group="length",
                optional=True,
                maximum_length=500,
                help="A text that is written before the thinking section is closed at its budget.",
            ),
            None,
        ),
        "min_thinking_tokens": param(
            Integer(
                label="Minimum thinking",
                group="length",
                optional=True,
                minimum=1,
                maximum=SETTINGS.max_new_tokens,
                slider_maximum=256,
                help="The thinking section may not end before this many tokens.",
            ),
            None,
        ),
    },
    explain=explain,
    stretch=no_stretch,
    term=Term(
        "thinking budget",
        "The most tokens that a model may write in its thinking section, between marks such as <think> and "
        "</think>. At the budget the end mark is forced.",
        "The model does not know its budget: the thought may stop in the middle of a sentence.",
        codes=("thinking",),
        params=("thinking_token_budget",),
    ),
)
