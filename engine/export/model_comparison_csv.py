"""A comparison of two models on one text as a CSV table: one row for each token."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from engine.csv_table import to_csv

if TYPE_CHECKING:
    from engine.analysis.score_with_other_model import ModelComparison
    from engine.analysis.server_comparison import ServerComparison

COLUMNS = ("place", "token_id", "text", "kl_nats", "p", "p_beside", "rank", "rank_beside", "agree")

_SERVER_COLUMNS = (
    *("place", "token_id", "text", "kl_low_nats", "kl_high_nats"),
    *("p_server", "p_here", "largest_difference_nats", "agree"),
)


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


def server_comparison_csv(found: ServerComparison) -> str:
    """Return the table; places start at 1, and what the server did not list is empty.

    ``agree`` is 1 if the same token is the most probable one there and here, else 0.

    Args:
        found: the comparison.
    """
    rows = (
        (
            place,
            token.token_id,
            found.pieces[token.token_id],
            *token.kl,
            "" if token.server_p is None else token.server_p,
            token.here_p,
            max(token.differences, default=""),
            int(token.server_top == token.here_top),
        )
        for place, token in enumerate(found.tokens, 1)
    )
    return to_csv(_SERVER_COLUMNS, rows)
