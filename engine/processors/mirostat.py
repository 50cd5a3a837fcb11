"""Mirostat, version 2: removes tokens that surprise by more than a cap (Basu et al. 2021, 2007.14966)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from engine.declare.params import Number, param
from engine.messages import Message
from engine.number_text import format_number
from engine.processors.filter import CUTS, Filter
from engine.processors.removal import (
    Removal,
    RemovalCase,
    removal_at_least,
    removal_until_off,
    token_name,
)
from engine.statistics.term import Term

if TYPE_CHECKING:
    import torch

_MAXIMUM = 20.0


class MirostatLogitsWarper:
    """Removes tokens that surprise by more than a cap, and moves the cap after each draw, as llama.cpp does.

    The cap begins at 2 tau bits. It falls by eta times what the drawn token surprised above tau, and
    rises where it surprised less.
    """

    # State after the last call: its texts' length, (rows, 1) caps in bits, (rows, vocab) surprise in bits.
    length = -1
    cap: torch.Tensor | None = None
    surprise: torch.Tensor | None = None

    def __init__(self, tau: float, eta: float = 0.1) -> None:
        self.tau, self.eta = tau, eta

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return (rows, vocab) scores, -inf where a token is removed."""
        bits = self.surprise_of(scores)
        self.cap = cap = self.next_cap(input_ids, scores)
        # The most probable token always stays.
        kept = bits <= cap.maximum(bits.amin(-1, keepdim=True))
        left = scores.masked_fill(~kept, float("-inf"))
        self.length, self.surprise = input_ids.shape[1], self.surprise_of(left)
        return left

    def surprise_of(self, scores: torch.Tensor) -> torch.Tensor:
        """Return (rows, vocab) how much each token would surprise, in bits."""
        return scores.log_softmax(-1) / -0.6931471805599453

    def next_cap(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return (rows, 1) caps of the next draw, in bits."""
        grown = input_ids.shape[1] - self.length
        if self.cap is None or self.surprise is None or grown not in (0, 1):
            return scores.new_full((len(scores), 1), 2 * self.tau)
        if grown == 0:  # the same pass again
            return self.cap
        # The last token is the one that was drawn; the padding of an ended text may have been removed.
        drawn = self.surprise.gather(-1, input_ids[:, -1:])
        return self.cap - self.eta * (drawn.where(drawn.isfinite(), self.tau) - self.tau)

    @property
    def stage_state(self) -> torch.Tensor | None:
        """(rows,) caps in bits, for the record."""
        return None if self.cap is None else self.cap[:, 0]


def explain(case: RemovalCase) -> Removal:
    """Return the token's surprise and the cap; at the first draw, the tau that keeps the token."""
    warper, bits = case.processor, -math.log2(case.p) if case.p > 0 else math.inf
    cap = float(warper.next_cap(case.ids, case.before)[case.row, 0])
    why = Message(
        "Mirostat removed {name}: it would surprise by {surprise} bits, and the cap is at {cap} bits here.",
        name=token_name(case),
        surprise=format_number(bits),
        cap=format_number(cap),
    )
    facts = (
        (
            "Above Mirostat's cap",
            Message("{n} bits", n=format_number(bits - cap)),
            "The cap moves down after a surprising token, and up after a dull one.",
        ),
    )
    if case.new:
        # Another tau would also have moved the cap at every earlier draw.
        return removal_until_off(why, "mirostat_tau", None, facts)
    return removal_at_least(
        case,
        why,
        "mirostat_tau",
        bits / 2,
        lambda v: MirostatLogitsWarper(v, warper.eta),
        off=None,
        most=_MAXIMUM,
        facts=facts,
    )


FILTER = Filter(
    name="Mirostat",
    title="Mirostat",
    parameter="mirostat_tau",
    off=None,
    params={
        "mirostat_tau": param(
            Number(
                label="Mirostat target",
                minimum=0,
                above_minimum=True,
                maximum=_MAXIMUM,
                slider_maximum=8,
                step=0.1,
                group="sampling",
                optional=True,
                help="Surprise that the text keeps to, in bits per token; more surprising tokens are removed.",
                papers=("2007.14966",),
            ),
            None,
        ),
        "mirostat_eta": param(
            Number(
                label="Mirostat learning rate",
                minimum=0,
                maximum=1,
                group="sampling",
                help="How fast Mirostat moves its cap towards the target after each token.",
                papers=("2007.14966",),
            ),
            0.1,
        ),
    },
    effect=CUTS,
    explain=explain,
    # No edge: small differences at earlier draws move the cap.
    needs_rerun="Mirostat's cap follows from the tokens that were drawn before",
    term=Term(
        "Mirostat",
        "Removes every token that would surprise by more than a cap, and moves the cap after each draw so "
        "that the text keeps to a target surprise.",
        "The target is an average: single tokens may surprise up to the cap.",
        params=("mirostat_tau",),
    ),
    build=MirostatLogitsWarper,
    settings=("mirostat_eta",),
    last=True,
)
