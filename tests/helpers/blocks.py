"""Parts of the page built without a server."""

from __future__ import annotations

import asyncio

import gradio as gr

from engine.aside import aside


def built(make):
    """Return what ``make()`` builds inside a page.

    Where no event loop runs, Gradio makes some that it never closes; a thread of its own has none
    yet, also after the browser's tests, whose library leaves one running.
    """

    async def build():
        with gr.Blocks():
            return make()

    return aside(lambda: asyncio.run(build()))
