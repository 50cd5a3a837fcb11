"""Gradio's inputs with their value handed over as it came: the engine judges it, in its own words.

Gradio's own checks answer some wrong values with no text at all and turn others silently into
strings.
"""

from __future__ import annotations

from typing import Any

import gradio as gr


class Slider(gr.Slider):
    """A slider whose value the engine checks."""

    is_template = True

    def preprocess(self, payload: Any) -> Any:
        """Return what was sent."""
        return payload


class Number(gr.Number):
    """A number field whose value the engine checks; None is shown as an empty field.

    The browser's part of Gradio's field turns null into 0 as soon as it is drawn, and that would
    switch an optional parameter on; an empty string stays empty.
    """

    is_template = True

    def postprocess(self, value: Any) -> Any:
        """Return what is sent to the browser."""
        return "" if value is None else super().postprocess(value)

    def preprocess(self, payload: Any) -> Any:
        """Return what was sent."""
        return payload


class Textbox(gr.Textbox):
    """A text field whose value the engine checks."""

    is_template = True

    def preprocess(self, payload: Any) -> Any:
        """Return what was sent."""
        return payload


class Dropdown(gr.Dropdown):
    """A choice whose value the engine checks."""

    is_template = True

    def preprocess(self, payload: Any) -> Any:
        """Return what was sent."""
        return payload


class Checkbox(gr.Checkbox):
    """A yes or no whose value the engine checks."""

    is_template = True

    def preprocess(self, payload: Any) -> Any:
        """Return what was sent."""
        return payload
