"""What an entry of the glossary is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Term:
    """A word of the field, explained."""

    name: str
    """As it stands in a sentence."""
    says: str
    """One or two plain sentences."""
    beware: str = ""
    """The mistake that the word invites, put right in one sentence; empty where there is none."""
    codes: tuple[str, ...] = ()
    """Its names in a trace, in a table or in the parameters."""
    params: tuple[str, ...] = ()
    """Parameters whose controls are explained by it."""
