"""HTML of sentences, with what the page needs to translate them."""

from __future__ import annotations

import json
from html import escape

from engine.messages import collect_templates


def message_html(text: str) -> str:
    """Return a sentence as HTML."""
    attribute = templates_attribute(text)
    return f"<span{attribute}>{escape(text)}</span>" if attribute else escape(text)


def templates_attribute(*texts: str) -> str:
    """Return the attribute with the templates of the texts inside an element, or its title."""
    found = collect_templates(texts)
    return f" data-templates='{escape(json.dumps(found), quote=True)}'" if found else ""
