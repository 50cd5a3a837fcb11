"""``watch(request)``: a run that a notebook draws while it decodes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any

from engine.errors import EngineError, format_value
from engine.messages import to_json
from engine.program import install_command
from engine.run.decoding import decode
from engine.run.request import DecodeRequest
from engine.settings import SETTINGS
from engine.trace.events import Failed, Finished
from engine.trace.records import Trace
from playground.jobs.progress import HEARTBEAT_S, STARTING, last_progress_message
from playground.runs.messages import MessageWriter
from visualizers.page import page

if TYPE_CHECKING:
    from playground.notebook.run_widget import RunWidget

_MISSING = "A notebook needs the package anywidget to draw a run while it decodes: {command}."


def watch(request: DecodeRequest) -> WatchedRun:
    """Start decoding; as the value of a cell, the result draws the run while it decodes.

    Jupyter, Colab and marimo show the views of the page. A click on a token shows its step. When the
    run has ended, Jupyter and Colab show its recorded page instead, which they save with the notebook.

    Args:
        request: what to decode. A bad one raises nothing: the cell shows the sentence about it.

    Raises:
        EngineError: the package anywidget is not installed, or ``request`` is something else.
    """
    if not isinstance(request, DecodeRequest):
        raise EngineError(
            "watch() takes a DecodeRequest, not {given}.", given=format_value(request)
        )
    try:
        from playground.notebook.run_widget import RunWidget
    except ModuleNotFoundError as error:
        if error.name != "anywidget":
            raise
        raise EngineError(_MISSING, command=install_command("notebook")) from None
    return WatchedRun(request, RunWidget)


class WatchedRun:
    """A run that is drawn while it decodes; see ``watch``.

    Args:
        request: what to decode.
        make_widget: creates its widget.

    Attributes:
        widget: the anywidget, to combine with other widgets.
    """

    def __init__(self, request: DecodeRequest, make_widget: type[RunWidget]) -> None:
        self.request = request
        self.widget = make_widget(request, self._hear)
        self._displays: list[Any] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._last: Finished | Failed | None = None
        self._selected: int | None = None
        self._run = decode(request)
        self._thread = _create_thread(self._follow)
        self.widget.add([self._progress_text(STARTING)])
        self._thread.start()

    @property
    def ended(self) -> bool:
        """Whether the run has ended: finished, stopped or failed."""
        return self._ended.is_set()

    def stop(self) -> None:
        """Stop within one step; what was decoded stays."""
        self._run.cancel()

    def result(self) -> Trace:
        """Wait for the end of the run and return its trace. An interrupt of the cell stops the run.

        Raises:
            EngineError: the request is invalid, or the run failed.
        """
        try:
            self._ended.wait()
        except BaseException:
            # KeyboardInterrupt, or what a notebook raises in its place.
            self.stop()
            self._ended.wait()
            raise
        match self._last:
            case Finished(trace):
                return trace
            case Failed(error):
                raise error
        raise EngineError("The run ended without a result.")

    def recorded_html(self) -> str:
        """Return the page of what was recorded, in a frame; the sentence of a run that failed first."""
        match self._last:
            case Failed(error, trace):
                says = f'<p role="alert">{escape(str(error))}</p>'
            case Finished(trace):
                says = ""
            case None:
                return ""
        if trace is None or not trace.steps:
            return says
        return says + page(trace, dark=None, selected=self._selected)._repr_html_()

    def _ipython_display_(self) -> None:
        """Display the widget; it is replaced by the recorded page when the run has ended."""
        from IPython.display import display

        with self._lock:
            if not self.ended:
                bundle = self.widget._repr_mimebundle_()
                data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
                self._displays.append(display(data, metadata=metadata, raw=True, display_id=True))
                return
        display(self._recorded_bundle(), raw=True)

    def _display_(self) -> object:
        """Return what marimo displays."""
        return self.widget

    def _recorded_bundle(self) -> dict[str, str]:
        match self._last:
            case Finished(trace):
                plain = "\n".join(output.text for output in trace.outputs)
            case last:
                plain = "" if last is None else str(last.error)
        return {"text/plain": plain, "text/html": self.recorded_html()}

    def _hear(self, said: dict[str, Any]) -> None:
        """Act on what a view says."""
        if said.get("stop") or said.get("left"):
            self.stop()
        if "selected" in said:
            self._selected = said["selected"]

    def _progress_text(self, news: dict[str, str]) -> str:
        about = {"run": self._run.run_id, "strategy": self.request.strategy}
        return to_json({"kind": "progress", **about, **news})

    def _follow(self) -> None:
        """Send the run's messages to the widget until it has ended; the body of the thread."""
        writer, number = MessageWriter(self.request), 0
        try:
            for events in self._run.batches(1 / SETTINGS.updates_per_s, HEARTBEAT_S):
                texts: list[str] = []
                for message in writer.messages(events):
                    about = {"run": self._run.run_id, "seq": number}
                    texts.append(to_json(about | message))
                    number += 1
                news = last_progress_message(events)
                if news is not None:
                    texts.append(self._progress_text(news))
                if events and isinstance(events[-1], Finished | Failed):
                    self._last = events[-1]
                if texts:
                    self.widget.add(texts)
                if _is_left():
                    self.stop()
        finally:
            self._run.close()
            self._show_end(begun=number > 1)

    def _show_end(self, begun: bool) -> None:
        """Show the recorded page, or the sentence of a run that failed before it began."""
        if isinstance(self._last, Failed) and not begun:
            # marimo would send a message, which is a kind of string, as an object.
            self.widget.refusal = "".join(str(self._last.error))
        with self._lock:
            self._ended.set()
            displays, self._displays = self._displays, []
        for shown in displays:
            shown.update(self._recorded_bundle(), raw=True)


def _create_thread(body: Callable[[], None]) -> threading.Thread:
    """Return a thread that may write to the notebook."""
    marimo = sys.modules.get("marimo")
    if marimo is not None and marimo.running_in_notebook():
        return marimo.Thread(target=body, daemon=True)
    return threading.Thread(target=body, daemon=True)


def _is_left() -> bool:
    """Return whether the cell of this thread was run again or deleted; only marimo says so."""
    return getattr(threading.current_thread(), "should_exit", False)
