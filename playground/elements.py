"""The elements that Gradio holds and the page's scripts draw: how they are made, and what they send."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import gradio as gr

OF_THE_PAGE: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
"""Options of an event that the page alone sends and whose progress it shows itself."""
OF_A_PRESS: dict[str, Any] = {**OF_THE_PAGE, "trigger_mode": "multiple"}
"""The same of an event whose page sees to it that one thing at a time goes on; it may ask for it again."""
_TAB = '<div class="dp-tab"><p class="dp-note">Loading…</p></div>'


def drawn(name: str, script: str, template: str = _TAB) -> gr.HTML:
    """Return an element that a script draws.

    Args:
        name: the element's id.
        script: what happens when it is there; see ``scripts.on_load`` and ``scripts.receiving``.
        template: what stands there until then.
    """
    return gr.HTML(
        "", html_template=template, elem_id=name, js_on_load=script, apply_default_css=False
    )


def hidden(name: str, script: str) -> gr.HTML:
    """Return an element that nobody sees: messages go over it."""
    return gr.HTML(
        "",
        visible="hidden",
        elem_id=name,
        html_template="<span></span>",
        js_on_load=script,
    )


def sent_with(event: gr.EventData) -> dict[str, Any]:
    """Return what a script sent along with an event; what is no object is an empty one."""
    return event._data if isinstance(event._data, dict) else {}


def both(told: Iterable[tuple[str | None, Any]]) -> Iterator[tuple[Any, Any]]:
    """Yield what two elements are sent: a text as it is, a message as JSON, nothing for None."""
    for text, message in told:
        yield (
            gr.skip() if text is None else text,
            gr.skip() if message is None else json.dumps(message, allow_nan=False),
        )
