"""The widget of a run: an anywidget whose values are the messages that the page draws."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anywidget
import traitlets

from engine.run.request import DecodeRequest
from playground.notebook.live_page import CLIENT_FOLDER, live_page, run_name
from visualizers.page import FRAME_HEIGHT

_LEVELS = ("newest", "newer", "older", "oldest")
_LIMITS = (32_000, 256_000, 2_000_000)
"""Characters of the messages at which a level moves to the next one."""
_SCRIPT = CLIENT_FOLDER / "notebook" / "widget.mjs"


class RunWidget(anywidget.AnyWidget):
    """The widget of one run; it may be displayed several times.

    A view that begins late needs all messages while the kernel may be busy, so they are values of the
    widget. A changed value is sent whole: the messages are spread over lists, of which the shortest
    changes most often.

    Args:
        request: what is decoded.
        hear: called with what a view says, as in ``live_page.mjs``, or ``{"left": True}`` when the last
            view is gone.
    """

    _esm = _SCRIPT.read_text("utf-8")
    name = traitlets.Unicode().tag(sync=True)
    page = traitlets.Unicode().tag(sync=True)
    height = traitlets.Unicode(FRAME_HEIGHT).tag(sync=True)
    newest = traitlets.List(traitlets.Unicode()).tag(sync=True)
    newer = traitlets.List(traitlets.Unicode()).tag(sync=True)
    older = traitlets.List(traitlets.Unicode()).tag(sync=True)
    oldest = traitlets.List(traitlets.Unicode()).tag(sync=True)
    count = traitlets.Int(0).tag(sync=True)
    refusal = traitlets.Unicode().tag(sync=True)

    def __init__(self, request: DecodeRequest, hear: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(name=run_name(request), page=live_page(request))
        self.on_msg(lambda widget, content, buffers: hear(content))

    @property
    def messages(self) -> list[dict[str, Any]]:
        """All messages so far, in their order."""
        levels = (getattr(self, name) for name in reversed(_LEVELS))
        return [json.loads(text) for level in levels for text in level]

    def add(self, texts: list[str]) -> None:
        """Send further messages, each as JSON."""
        with self.hold_sync():
            self.newest = [*self.newest, *texts]
            for name, above, limit in zip(_LEVELS, _LEVELS[1:], _LIMITS, strict=False):
                level = getattr(self, name)
                if sum(map(len, level)) > limit:
                    setattr(self, above, [*getattr(self, above), *level])
                    setattr(self, name, [])
            self.count += len(texts)
