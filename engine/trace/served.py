"""What a server reported of a step and of a run that was decoded elsewhere, and what it did not."""

from __future__ import annotations

from dataclasses import dataclass

from engine.trace.draws import DrawDetail
from engine.trace.value_types import Probability

SERVED_STRATEGY = "endpoint"
"""``Trace.strategy`` of a run that a server decoded: no strategy of this program made it."""
SERVERS = ("openai", "vllm", "llamacpp", "ollama", "tgi", "unknown")
DISTRIBUTIONS = ("model", "sampled", "unknown")
"""Whether the reported probabilities are the model's own or those after the server's filters."""
CHOICES = ("greedy", "sampling", "own", "unknown")
"""Who chose the tokens and how: the server, this program by its own filters, or unknown."""
FIRST_INVENTED_ID = 900_000_000
"""Ids from here on only number the texts of one file: the server reported no ids for them."""


@dataclass(frozen=True, slots=True)
class ServedDetail:
    """A step whose distribution was only partly reported.

    Both probabilities of its candidates hold the one reported number, unless this program drew the
    token: then the second one is that after its filters.
    """

    distribution: str
    """One of DISTRIBUTIONS."""
    unseen_low: Probability
    """Least probability of all tokens that were not reported."""
    unseen_high: Probability
    """Most probability of all tokens that were not reported."""
    entropy_low: float
    """Least entropy of the distribution in nats that agrees with the report."""
    entropy_high: float
    """Most entropy in nats that agrees with it, for the largest vocabulary that is possible."""
    merged: bool = False
    """True if the token ends a character whose earlier tokens the server reported as part of it.
    Its probability is that of the last token alone."""
    draw: DrawDetail | None = None
    """How this program drew the token; None if the server chose it."""
    draw_error: Probability = 0.0
    """Most probability by which the distribution of the draw may differ from that over the whole
    vocabulary (total variation distance); 0 if everything that the filters keep was reported."""


@dataclass(frozen=True, slots=True)
class ServedInfo:
    """The server of a run and what it counted."""

    server: str
    """One of SERVERS."""
    measured: bool
    """True if this format was read from recorded answers, False if from documentation only."""
    choice: str
    """One of CHOICES: how the server chose tokens, as far as the request says."""
    completion_tokens: int | None = None
    """Number of new tokens that the server counted; None if it reported no count."""
    prompt_tokens: int | None = None
    """Number of prompt tokens that the server counted; None if it reported no count."""
    host: str = ""
    """Host of the server; empty for a recorded answer, whose address is unknown."""


def is_invented_id(token_id: int) -> bool:
    """Return True if a token id only numbers a text of its file."""
    return token_id >= FIRST_INVENTED_ID
