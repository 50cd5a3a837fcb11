"""The one tab builder: everything a strategy's tab shows follows from its declaration.

The page's scripts draw the tab from ``playground.spec``; here it is wired to the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr

from engine.strategies.base import Strategy
from playground.elements import OF_THE_PAGE, drawn, sent_with
from playground.form import form_request
from playground.guard import guarded
from playground.scripts import on_load
from playground.stream import JOURNAL, refusal, stream
from playground.zerogpu import in_line, on_gpu

QUEUE = "model"


def build_tab(strategy: Strategy, bus: Any) -> None:
    """Build a strategy's tab and wire its Run and Stop.

    Args:
        strategy: what it is for.
        bus: the hidden element that carries the messages of runs.
    """
    name = strategy.name
    with gr.Tab(strategy.tab, id=name, elem_id=f"tab-{name}"):
        script = on_load(f"p.tab(element.querySelector('.dp-tab'), '{name}', trigger)")
        page = drawn(f"page-{name}", script)
    page.input(on_gpu(_starter(name)), None, bus, **in_line(QUEUE), **OF_THE_PAGE)
    page.stop(guarded(_stop), None, None, concurrency_limit=None, **OF_THE_PAGE)


def _starter(name: str) -> Callable[[gr.EventData], Iterator[str]]:
    def start(event: gr.EventData) -> Iterator[str]:
        try:
            request = form_request({**sent_with(event), "strategy": name})
        except BaseException as error:
            yield refusal(name, error)
            return
        yield from stream(request)

    return start


def _stop(event: gr.EventData) -> None:
    JOURNAL.cancel(str(sent_with(event).get("run", ""))[:64])
