"""The glossary: the terms of the page, saved pages and docs."""

from __future__ import annotations

from engine.statistics.glossary import drafting, influence, text, token_selection
from engine.statistics.glossary.entry import Term

TERMS: dict[str, Term] = {
    term.name: term for part in (text, token_selection, drafting, influence) for term in part.TERMS
}


def term_for_parameter(name: str) -> str | None:
    """Return the name of the term that explains a parameter, or None."""
    return next((term.name for term in TERMS.values() if name in term.params), None)


def glossary_texts() -> dict[str, list[str]]:
    """Return name -> [definition, common mistake], as JSON values for the page."""
    return {term.name: [term.says, term.beware] for term in TERMS.values()}
