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
from playground.forms.form import check_here, form_request
from playground.forms.visitor_media import kept_apart
from playground.jobs.background_jobs import outliving
from playground.jobs.zerogpu import in_line, on_gpu
from playground.runs.stream import refusal, stream, whole_state
from playground.runs.takeover import going_on
from playground.shell.elements import OF_A_PRESS, OF_THE_PAGE, drawn, sent_with
from playground.shell.guard import guarded
from playground.shell.scripts import on_load
from playground.storage.journal import JOURNAL, Press

QUEUE = "model"


def build_tab(strategy: Strategy, bus: Any) -> None:
    """Build a strategy's tab and wire its Run and Stop.

    Args:
        strategy: The strategy.
        bus: The hidden element that carries the messages of runs.
    """
    name = strategy.name
    with gr.Tab(strategy.tab, id=name, elem_id=f"tab-{name}"):
        script = on_load(f"p.tab(element.querySelector('.dp-tab'), '{name}', trigger)")
        page = drawn(f"page-{name}", script)
    page.input(
        on_gpu(outliving(_starter(name), _unknown, _has, partial(going_on, key=name))),
        None,
        bus,
        **in_line(QUEUE),
        **OF_A_PRESS,
    )
    # Stop is a queued event without a limit: the path of unqueued events is closed.
    page.stop(guarded(_stop), None, None, concurrency_limit=None, **OF_THE_PAGE)


def _starter(name: str) -> Callable[[dict[str, Any]], Generator[str, None, None]]:
    def start(asked: dict[str, Any]) -> Generator[str, None, None]:
        try:
            about = {**asked, "strategy": name}
            request = check_here(form_request(about))
        except BaseException as error:
            yield refusal(name, error)
            return
        yield from stream(request, press=Press(str(asked.get("press", "")), kept_apart(about)))

    return start


def _unknown(asked: dict[str, Any]) -> str:
    """Return the stored messages of a run that is not active."""
    return whole_state(str(asked.get("run", ""))[:64])


def _has(asked: dict[str, Any], text: str) -> bool:
    """Return True if all messages in ``text`` are of the page's run and seq < ``asked["next"]``."""
    message, following = json.loads(text), asked.get("next")
    if message["run"] != asked.get("run") or type(following) is not int:
        return False
    of_it = message["messages"] if message["kind"] == "state" else [message]
    return all("seq" in one and one["seq"] < following for one in of_it)


def _stop(event: gr.EventData) -> None:
    JOURNAL.cancel(str(sent_with(event).get("run", ""))[:64])
