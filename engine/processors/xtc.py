"""XTC: sometimes removes the most probable tokens (p-e-w, text-generation-webui #6335, llama.cpp #9742)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.declare.params import Number, param
from engine.messages import Message
from engine.number_text import (
    format_number,
    format_percent,
    format_value,
    quote_token,
    round_up_until,
)
from engine.processors.filter import Filter
from engine.processors.removal import Removal, RemovalCase, removal_until_off, token_name
from engine.statistics.term import Term

if TYPE_CHECKING:
    import torch

MAX_THRESHOLD = 0.5
"""Only one token can have a larger probability, so a larger threshold removes nothing."""


class XTCLogitsWarper:
    """Removes the top choices in some steps, all but the least probable of them, as llama.cpp does.

    A coin in [0, 1) decides in each step: up to ``probability`` the filter acts. Top choices are the
    tokens of at least ``threshold``.
    """

    # (rows,) drawn by the loop before each pass; without a loop, torch's own generator draws them.
    coins: torch.Tensor | None = None

    def __init__(self, probability: float, threshold: float = 0.1) -> None:
        self.probability, self.threshold = probability, threshold

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return (rows, vocab) scores, -inf where a token is removed."""
        coins = self.coins
        if coins is None:
            coins = scores.new_empty(len(scores)).uniform_()
        others = self.top_choices(scores).scatter(-1, self.least_choice(scores)[:, None], False)
        return scores.masked_fill(others & (coins <= self.probability)[:, None], float("-inf"))

    @property
    def stage_state(self) -> torch.Tensor | None:
        """(rows,) coins, for the record."""
        return self.coins

    def top_choices(self, scores: torch.Tensor) -> torch.Tensor:
        """Return (rows, vocab) whether a token's probability reaches the threshold."""
        return scores.softmax(-1) >= self.threshold

    def least_choice(self, scores: torch.Tensor) -> torch.Tensor:
        """Return (rows,) id of the least probable top choice; any id where there is none."""
        return scores.masked_fill(~self.top_choices(scores), float("inf")).argmin(-1)


def explain(case: RemovalCase) -> Removal:
    """Return which top choice stayed in the token's place, and the threshold that keeps the token."""
    warper = case.processor
    stayed = int(warper.least_choice(case.before)[case.row])
    why = Message(
        "XTC removed {name}: it has {percent}, and of the tokens from {threshold} up only the least "
        "probable stays, {other}.",
        name=token_name(case),
        percent=format_percent(case.p),
        threshold=format_percent(warper.threshold),
        other=quote_token(case.piece(stayed)),
    )
    facts = [
        (
            "Probability of the last top choice",
            format_percent(float(case.probs[stayed])),
            "XTC keeps this token of those that reach the threshold.",
        )
    ]
    if warper.coins is not None:
        facts.append(
            (
                "Coin",
                format_number(float(warper.coins[case.row])),
                Message(
                    "XTC acts in this step, because the coin is at most {probability}.",
                    probability=format_value(warper.probability),
                ),
            )
        )
    # Above the next lower probability, the token is the least probable top choice or none at all.
    lower = float(case.probs.masked_fill(case.probs >= case.p, 0.0).max())
    value = round_up_until(
        lower, lambda v: case.is_kept_by(case.with_value(threshold=v)), MAX_THRESHOLD
    )
    if value is None:
        return removal_until_off(why, "xtc_probability", 0.0, facts)
    survives = Message(
        "at {parameter} ≥ {value}", parameter="xtc_threshold", value=format_value(value)
    )
    instead = case.with_value(threshold=value)
    return Removal(why, survives, {"xtc_threshold": value}, instead, tuple(facts))


FILTER = Filter(
    name="XTC",
    title="XTC",
    parameter="xtc_probability",
    off=0.0,
    params={
        "xtc_probability": param(
            Number(
                label="XTC probability",
                minimum=0,
                maximum=1,
                group="sampling",
                help="How often XTC removes the most likely tokens, all but the last of them; 0 is off.",
            ),
            0.0,
        ),
        "xtc_threshold": param(
            Number(
                label="XTC threshold",
                minimum=0,
                above_minimum=True,
                maximum=MAX_THRESHOLD,
                group="sampling",
                help="XTC counts tokens of at least this probability as the most likely ones.",
            ),
            0.1,
        ),
    },
    explain=explain,
    # No edge: which tokens it removes depends on the smallest probability above the threshold.
    term=Term(
        "XTC",
        "“Exclude top choices”: in some steps, drawn at random, removes every token above a threshold "
        "except the least probable of them.",
        "Where only one token is above the threshold, nothing is removed.",
        params=("xtc_probability",),
    ),
    build=XTCLogitsWarper,
    settings=("xtc_threshold",),
    last=True,
)
