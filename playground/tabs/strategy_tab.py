"""Builder of the strategy tabs: wires each tab's Run and Stop to the engine.

The page's scripts draw the tab's content from ``playground.forms.spec``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import gradio as gr

from engine.strategies.base import Strategy
from playground.forms.form import check_method_is_local, form_request
from playground.forms.visitor_media import without_visitor
from playground.jobs.background_jobs import resumable
from playground.jobs.zerogpu import on_gpu, queue_options
from playground.runs.stream import refusal_message, run_state, stream_run
from playground.runs.takeover import take_over
from playground.shell.elements import PAGE_EVENT, PRESS_EVENT, add_scripted_element, event_data
from playground.shell.guard import guard_handler
from playground.shell.scripts import on_load
from playground.storage.journal import JOURNAL, Press

RUN_QUEUE_ID = "model"


def build_tab(strategy: Strategy, bus: Any) -> None:
    """Build a strategy's tab and wire its Run and Stop.

    Args:
        strategy: The strategy.
        bus: The hidden element that carries the messages of runs.
    """
    name = strategy.name
    with gr.Tab(strategy.tab, id=name, elem_id=f"tab-{name}"):
        script = on_load(f"p.tab(element.querySelector('.dp-tab'), '{name}', trigger)")
        page = add_scripted_element(f"page-{name}", script)
    page.input(
        on_gpu(
            resumable(
                _make_starter(name), _stored_state, _has_received, partial(take_over, key=name)
            )
        ),
        None,
        bus,
        **queue_options(RUN_QUEUE_ID),
        **PRESS_EVENT,
    )
    # Stop is a queued event without a limit: the path of unqueued events is closed.
    page.stop(guard_handler(_stop_run), None, None, concurrency_limit=None, **PAGE_EVENT)


def _make_starter(name: str) -> Callable[[dict[str, Any]], Generator[str, None, None]]:
    def start(asked: dict[str, Any]) -> Generator[str, None, None]:
        try:
            about = {**asked, "strategy": name}
            request = check_method_is_local(form_request(about))
        except BaseException as error:
            yield refusal_message(name, error)
            return
        yield from stream_run(
            request, press=Press(str(asked.get("press", "")), without_visitor(about))
        )

    return start


def _stored_state(asked: dict[str, Any]) -> str:
    """Return the stored messages of a run that is not active."""
    return run_state(str(asked.get("run", ""))[:64])


def _has_received(asked: dict[str, Any], text: str) -> bool:
    """Return True if all messages in ``text`` are of the page's run and seq < ``asked["next"]``."""
    message, following = json.loads(text), asked.get("next")
    if message["run"] != asked.get("run") or type(following) is not int:
        return False
    of_it = message["messages"] if message["kind"] == "state" else [message]
    return all("seq" in one and one["seq"] < following for one in of_it)


def _stop_run(event: gr.EventData) -> None:
    JOURNAL.cancel(str(event_data(event).get("run", ""))[:64])
