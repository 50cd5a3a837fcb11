"""Builder of the strategy tabs: wires each tab's Run to the engine.

The page's scripts draw the tab's content from ``playground.forms.spec``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import gradio as gr

from engine.strategies.base import Strategy
from playground.forms.form import run_request
from playground.forms.visitor_media import without_visitor
from playground.jobs.page_events import connect_jobs
from playground.jobs.registry import JobKind, PageJob, Payload
from playground.runs.stream import refusal_message, stored_state, stream_run
from playground.runs.takeover import take_over
from playground.shell.elements import add_scripted_element
from playground.shell.scripts import on_load
from playground.storage.journal import Press


def build_tab(strategy: Strategy, bus: Any) -> None:
    """Build a strategy's tab and wire its Run.

    Args:
        strategy: The strategy.
        bus: The hidden element that carries the messages of runs.
    """
    name = strategy.name
    with gr.Tab(strategy.tab, id=name, elem_id=f"tab-{name}"):
        script = on_load(f"p.tab(element.querySelector('.dp-tab'), '{name}', trigger)")
        page = add_scripted_element(f"page-{name}", script)
    kind = JobKind(
        name,
        partial(_decode_form, name),
        failure=partial(refusal_message, name),
        unknown=stored_state,
        take_over=partial(take_over, key=name),
    )
    connect_jobs(kind, page, bus=bus, tab=False)


def _decode_form(name: str, job: PageJob, payload: Payload) -> Iterator[str]:
    about = {**payload, "strategy": name}
    request = run_request(about)
    yield from stream_run(job, request, press=Press(job.id, without_visitor(about)))
