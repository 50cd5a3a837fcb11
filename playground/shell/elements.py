"""Gradio elements that the page's scripts draw, and the data of their events."""

from __future__ import annotations

from typing import Any

import gradio as gr

PAGE_EVENT: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
"""Options of an event that only the page triggers, and whose progress the page shows itself."""
PRESS_EVENT: dict[str, Any] = {**PAGE_EVENT, "trigger_mode": "multiple"}
"""Options of a Run event: the page itself prevents double presses, and may resume the event."""
_MAX_PAGE_NUMBER = 2**31
_LOADING_HTML = '<div class="dp-tab"><p class="dp-note">Loading…</p></div>'


def add_scripted_element(name: str, script: str, template: str = _LOADING_HTML) -> gr.HTML:
    """Add an element that a script draws, and return it.

    Args:
        name: the element's id.
        script: JavaScript to run on load; see ``scripts.on_load`` and ``scripts.receiving``.
        template: HTML to show until the script has drawn it.
    """
    return gr.HTML(
        "", html_template=template, elem_id=name, js_on_load=script, apply_default_css=False
    )


def add_hidden_element(name: str, script: str) -> gr.HTML:
    """Add an invisible element that carries messages, and return it."""
    return gr.HTML(
        "",
        visible="hidden",
        elem_id=name,
        html_template="<span></span>",
        js_on_load=script,
    )


def read_page_number(value: object) -> int:
    """Return a number by which the page knows its question, 0 if it is not valid."""
    # Not isinstance: a bool is an int.
    return value if type(value) is int and 0 <= value < _MAX_PAGE_NUMBER else 0


def event_data(event: gr.EventData) -> dict[str, Any]:
    """Return the data that a script sent with an event, or an empty dict if it is not an object."""
    return event._data if isinstance(event._data, dict) else {}
