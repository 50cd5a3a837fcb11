"""A comparison of two models on one text as a CSV table: one row for each token."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from engine.csv_table import to_csv

if TYPE_CHECKING:
    from engine.analysis.score_with_other_model import ModelComparison

COLUMNS = ("place", "token_id", "text", "kl_nats", "p", "p_beside", "rank", "rank_beside", "agree")


def model_comparison_csv(found: ModelComparison) -> str:
    """Return the table; places and ranks start at 1.

    ``agree`` is 1 if both models rank the same token first, else 0.

    Args:
        found: the comparison.
    """
    own, other = found.own, found.other
    rows = (
        (
            place + 1,
            token_id,
            found.pieces[token_id],
            found.kl[place],
            math.exp(own.logprobs[place]),
            math.exp(other.logprobs[place]),
            own.ranks[place],
            other.ranks[place],
            int(own.tops[place] == other.tops[place]),
        )
        for place, token_id in enumerate(found.token_ids)
    )
    return to_csv(COLUMNS, rows)
