"""The Replay tab: plays a trace file or a recorded run without a model."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import gradio as gr

from engine.analysis import gallery
from engine.endpoints import open_recording
from engine.endpoints.to_trace import SERVER_TITLES
from engine.errors import EngineError
from engine.messages import Message, to_json
from engine.sources.catalogue import CATALOGUE
from engine.trace.records import Trace
from playground.forms.links import trace_form
from playground.forms.run_views import trace_views, trace_visuals
from playground.i18n.message_html import templates_attribute
from playground.shell.elements import PAGE_EVENT, add_scripted_element
from playground.shell.guard import error_message, guard_handler
from playground.shell.scripts import on_load, on_message
from playground.storage.uploads import UPLOADS
from visualizers import page


def build_replay() -> None:
    """Build the tab: file upload, player and gallery."""
    with gr.Tab("Replay", id="replay", elem_id="tab-replay"):
        gr.HTML(
            "<h2 class='dp-sr'>Replay</h2>"
            "<p>Open a trace file, your own or somebody else's, a server's answer or a recorded run, "
            "and play it step by step. Nothing is decoded again: every number is the recorded one.</p>",
            elem_classes="dp-about",
        )
        with gr.Row(equal_height=False, elem_classes="dp-columns"):
            with gr.Column(min_width=0, elem_classes="dp-ask"):
                file = gr.File(
                    label="Trace file or a server's answer",
                    file_types=[".json", ".gz", ".sse", ".ndjson", ".jsonl", ".txt"],
                    type="filepath",
                    height=160,
                    elem_id="replay-file",
                )
                note = gr.HTML("", elem_id="replay-note", apply_default_css=False)
                add_scripted_element(
                    "replay-paste", on_load("p.pasteAnswer(element.querySelector('.dp-tab'))")
                )
            with gr.Column(min_width=0, elem_classes="dp-right"):
                player = add_scripted_element(
                    "replay-player",
                    on_message(
                        "p.player(element.querySelector('.dp-player'), trigger)", at_once=True
                    ),
                    '<div class="dp-player"></div>',
                )
            with gr.Column(min_width=0, elem_classes="dp-settings"):
                add_scripted_element(
                    "replay-gallery",
                    on_load("p.gallery(element.querySelector('.dp-tab'))"),
                )
        file.upload(guard_handler(open_file), file, [player, note], **PAGE_EVENT)


def declaration() -> list[dict[str, str | None]]:
    """Return the gallery's entries as JSON values; ``model`` is the title of a conversation's model."""
    return [
        {
            "name": entry.name,
            "strategy": entry.strategy,
            "title": entry.preset,
            "model": CATALOGUE[entry.model].title if entry.model else None,
            "shows": entry.shows,
        }
        for entry in gallery.list_entries()
    ]


def open_file(path: Any) -> tuple[Any, str]:
    """Return the player's message and a note as HTML.

    An invalid file leaves the player unchanged.
    """
    if not path:
        return gr.skip(), ""
    name = Path(str(path)).name
    try:
        trace = open_recording(str(path))
    except EngineError as error:
        return (
            gr.skip(),
            _note_html(error_message(error), "dp-status bad", "alert"),
        )
    finally:
        # An upload is read once and then removed.
        UPLOADS.remove(str(path))
    return player_message(trace, name), _note_html(_describe_file(trace, name))


def _describe_file(trace: Trace, name: str) -> Message:
    if trace.served is not None:
        server = SERVER_TITLES[trace.served.server]
        return Message(
            "{name}: {n} tokens from {server}.", name=name, n=len(trace.steps), server=server
        )
    if len(trace.steps) == 1:
        return Message("{name}: 1 step of {strategy}.", name=name, strategy=trace.strategy)
    return Message(
        "{name}: {steps} steps of {strategy}.",
        name=name,
        steps=len(trace.steps),
        strategy=trace.strategy,
    )


def player_message(trace: Trace, name: str) -> str:
    """Return the player's message as JSON: the run, its views, name and form."""
    sent = {
        **trace_with_visuals(trace),
        "visuals": trace_views(trace),
        "name": name,
        "form": trace_form(trace),
    }
    return to_json(sent)


def trace_with_visuals(trace: Trace) -> dict[str, Any]:
    """Return a recorded run as JSON values, with the data of its strategy's views."""
    return page.to_recording(trace, trace_visuals(trace))


def _note_html(text: str, style: str = "dp-note", role: str = "status") -> str:
    return f"<p class='{style}' role='{role}'{templates_attribute(text)}>{escape(text)}</p>"
