"""HTML of sentences, with what the page needs to translate them."""

from __future__ import annotations

import json
from html import escape

from engine.messages import collect_templates


def message_html(text: str) -> str:
    """Return a sentence as HTML."""
    has_templates = bool(collect_templates(text))
    return (
        f"<span{templates_attribute(text)}>{escape(text)}</span>" if has_templates else escape(text)
    )


def templates_attribute(*texts: str) -> str:
    """Return the attribute with the templates of the texts inside an element, or its title.

    The page translates every element that has it; a sentence without values has no template.
    """
    return f" data-templates='{escape(json.dumps(collect_templates(texts)), quote=True)}'"
