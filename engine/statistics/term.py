"""A glossary entry."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Term:
    """A term and its explanation."""

    name: str
    """As written inside a sentence."""
    says: str
    """One or two plain sentences."""
    beware: str = ""
    """One sentence that corrects a common mistake, or empty."""
    codes: tuple[str, ...] = ()
    """Its names in traces, tables and parameters."""
    params: tuple[str, ...] = ()
    """Parameters whose controls it explains."""
