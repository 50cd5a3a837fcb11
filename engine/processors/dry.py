"""DRY: makes a token less likely that would continue a repeat (p-e-w, text-generation-webui #5677)."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# torch does not say what Tensor.tolist() returns.
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from engine.declare.params import Integer, Number, param
from engine.declare.tokens import Tokens
from engine.messages import Message
from engine.processors.filter import Filter
from engine.processors.scores import no_stretch
from engine.statistics.term import Term

if TYPE_CHECKING:
    import torch

BREAKERS = ("\n", ":", '"', "*")
"""Marks that end a repeat unless others are named; those of llama.cpp."""


class DRYLogitsProcessor:
    """Lowers the score of a token that would continue a repeat, as DRY of llama.cpp does.

    The last tokens of the text may have occurred before. For a token that followed the longest such
    repeat, of n tokens, the penalty is multiplier * base ** (n - allowed_length).
    """

    def __init__(
        self,
        multiplier: float,
        base: float = 1.75,
        allowed_length: int = 2,
        penalty_last_n: int = -1,
        breakers: tuple[int, ...] = (),
    ) -> None:
        self.multiplier, self.base, self.allowed_length = multiplier, base, allowed_length
        self.penalty_last_n, self.breakers = penalty_last_n, frozenset(breakers)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return (rows, vocab) scores, lowered where a token would continue a repeat."""
        growth = scores.new_zeros(scores.shape)
        for row, text in enumerate(input_ids.tolist()):
            for token, length in self.find_repeats(text).items():
                growth[row, token] = self.growth(length)
        return scores - self.multiplier * growth

    def growth(self, length: int) -> float:
        """Return the penalty of a repeat of ``length`` tokens, in multipliers."""
        try:
            growth = self.base ** (length - self.allowed_length)
        except OverflowError:
            growth = float("inf")
        # A penalty never removes a token, however long the repeat is.
        return min(growth, 1e30)

    def find_repeats(self, text: list[int]) -> dict[int, int]:
        """Return token id -> length of the longest repeat that it would continue, if that counts."""
        # Newest token first: repeats begin at place 0, and the token after one that begins at i is at i - 1.
        back = text[::-1][: None if self.penalty_last_n < 0 else self.penalty_last_n]
        # A repeat may not reach over a breaker, so no repeat is longer than the tokens after the last one.
        most = next((i for i, token in enumerate(back) if token in self.breakers), len(back))
        found: dict[int, int] = {}
        # The Z algorithm: lengths[i] tokens before place i equal the last tokens of the text.
        lengths, left, right = [0] * len(back), 0, 0
        for i in range(1, len(back)):
            n = min(right - i, lengths[i - left]) if i < right else 0
            while i + n < len(back) and back[n] == back[i + n]:
                n += 1
            lengths[i] = n
            if i + n > right:
                left, right = i, i + n
            if min(n, most) >= self.allowed_length:
                found[back[i - 1]] = max(found.get(back[i - 1], 0), min(n, most))
        return found


def describe_effect(processor: Any, text: Sequence[int], token_id: int) -> str:
    """Return which repeat the token would continue; empty if none counts."""
    length = processor.find_repeats(list(text)).get(token_id)
    return "" if length is None else Message("It would continue a repeat of {n} tokens.", n=length)


FILTER = Filter(
    name="DRY",
    title="DRY",
    parameter="dry_multiplier",
    off=0.0,
    params={
        "dry_multiplier": param(
            Number(
                label="DRY penalty",
                group="penalties",
                minimum=0,
                maximum=10,
                slider_maximum=3,
                step=0.05,
                help=(
                    "Makes tokens less likely that would continue a repeat, more so in a longer one; "
                    "0 is off."
                ),
            ),
            0.0,
        ),
        "dry_base": param(
            Number(
                label="DRY growth",
                group="penalties",
                minimum=1,
                maximum=4,
                step=0.05,
                help="The DRY penalty grows by this factor with every token of the repeat.",
            ),
            1.75,
        ),
        "dry_allowed_length": param(
            Integer(
                label="DRY allowed length",
                group="penalties",
                minimum=1,
                maximum=64,
                slider_maximum=16,
                help="Repeats shorter than this many tokens have no DRY penalty.",
            ),
            2,
        ),
        "dry_penalty_last_n": param(
            Integer(
                label="DRY range",
                group="penalties",
                minimum=-1,
                maximum=1_000_000,
                slider_maximum=512,
                help="DRY looks for repeats in this many last tokens; −1 is the whole text.",
            ),
            -1,
        ),
        "dry_sequence_breakers": param(
            Tokens(
                label="DRY breakers",
                group="penalties",
                optional=True,
                minimum_items=0,
                help=(
                    "Tokens that end a repeat, as ids or as text. Off means the new line, colon, quotation "
                    "mark and asterisk."
                ),
            ),
            None,
        ),
    },
    settings=(
        "dry_base",
        "dry_allowed_length",
        "dry_penalty_last_n",
        "dry_sequence_breakers",
    ),
    describe_effect=describe_effect,
    # It adds numbers by the text alone.
    stretch=no_stretch,
    term=Term(
        "DRY",
        "“Don't repeat yourself”: lowers the logit of a token that would continue a repeat of earlier text. "
        "The penalty grows with the length of the repeat.",
        "A single word may come again; only the next word of a repeat is penalized.",
        params=("dry_multiplier",),
    ),
    build=DRYLogitsProcessor,
)
