"""The glossary: the terms of the page, saved pages and docs."""

from __future__ import annotations

from engine.glossary import diffusion, drafting, influence, text, token_selection
from engine.processors import FILTERS
from engine.statistics.term import Term

TERMS: dict[str, Term] = {
    term.name: term
    for terms in (
        text.TERMS,
        [one.term for one in FILTERS.values() if one.term is not None],
        token_selection.TERMS,
        drafting.TERMS,
        diffusion.TERMS,
        influence.TERMS,
    )
    for term in terms
}


def term_for_parameter(name: str) -> str | None:
    """Return the name of the term that explains a parameter, or None."""
    return next((term.name for term in TERMS.values() if name in term.params), None)


def glossary_texts() -> dict[str, list[str]]:
    """Return name -> [definition, common mistake], as JSON values for the page."""
    return {term.name: [term.says, term.beware] for term in TERMS.values()}
