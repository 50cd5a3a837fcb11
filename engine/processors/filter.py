"""What a filter declares about itself; see "Add a filter" in CONTRIBUTING.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.processors.removal import Removal, RemovalCase
from engine.statistics.term import Term

if TYPE_CHECKING:
    import torch

CUTS = "cuts"
"""It removes the tokens that fit least; the others keep their scores and their order."""
RESCALES = "rescales"
"""It changes all scores and keeps their order."""
CHANGES = "changes"
"""It changes or removes any tokens."""


@dataclass(frozen=True, kw_only=True)
class Filter:
    """One filter: a logits processor of transformers or of this project."""

    name: str
    """Its name in records: the class name without LogitsWarper or LogitsProcessor."""
    title: str
    """Its name on the page."""
    parameter: str
    """The parameter that switches it on."""
    off: Any
    """The value of this parameter that switches it off."""
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Name -> field made with ``declare.params.param``; empty if it shares another's."""
    effect: str = CHANGES
    """CUTS, RESCALES or CHANGES."""
    explain: Callable[[RemovalCase], Removal] | None = None
    """Why it removed a token, and which value would have kept it; None if it removes none."""
    stretch: Callable[[Any], Any] | None = None
    """processor -> largest factor by which it enlarges a difference of two scores; (rows,) factors
    for a processor with a (rows, 1) column of values."""
    edge: Callable[[Any, torch.Tensor, torch.Tensor], torch.Tensor] | None = None
    """(processor, (rows, vocab) scores, kept mask) -> (rows,) distance of the nearest score to its edge.

    Without ``stretch`` and ``edge`` nobody knows whether a small numerical difference can change
    its result, so runs with it do not share forward passes.
    """
    term: Term | None = None
    """Its glossary entry."""
    needs_rerun: str = ""
    """Why a what-if analysis cannot change it without the model; empty if it can."""
    describe_effect: Callable[[Any, Sequence[int], int], str] | None = None
    """(processor, ids so far, token id) -> why it changed the token's score, empty if it did not."""
    build: Callable[..., Any] | None = None
    """(value of the parameter, tokens it must keep) -> processor; None if generate() builds it."""
    settings: tuple[str, ...] = ()
    """Further parameters, whose values ``build`` takes in place of the tokens it must keep."""
    last: bool = False
    """Whether it comes after the filters of generate(), because it judges what they leave."""

    @property
    def keeps_order(self) -> bool:
        """Whether the tokens that it leaves keep their order."""
        return self.effect != CHANGES
