"""The Tune tab: a table of prompts, settings and seeds that fills while it can be used."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import gradio as gr

from engine.analysis.taste import PROMPTS
from engine.analysis.tune.cell_result import CellResult
from engine.analysis.tune.plan import Cell, TunePlan
from engine.analysis.tune.run_table import run_table
from engine.analysis.tune.table import Table
from engine.analysis.tune.table_view import table_view
from engine.export.generation_config import format_config
from engine.export.plan import plan_export
from engine.export.short_script import short_code
from engine.messages import Message
from engine.run.scheduler import EventCallback
from engine.serving import decode
from engine.trace.records import Trace
from playground.forms.links import to_form, to_link
from playground.forms.tune_form import read_table_form
from playground.jobs.page_events import connect_jobs
from playground.jobs.progress import STARTING, with_progress
from playground.jobs.registry import JobKind, PageJob
from playground.shell.elements import add_scripted_element
from playground.shell.scripts import on_message
from playground.storage.table_store import TableStore

_UPDATE_S = 1.0
"""Least seconds between two states of the table: each has all means and verdicts."""


def build_tune() -> None:
    """Build the tab."""
    with gr.Tab("Tune", id="tune", elem_id="tab-tune"):
        page = add_scripted_element(
            "page-tune", on_message("p.tune(element.querySelector('.dp-tab'), trigger)")
        )
    connect_jobs(TUNE, page)


def declaration() -> dict[str, Any]:
    """Return the first plan of the tab as JSON values."""
    length = {"max_new_tokens": 40}
    settings: list[tuple[str, dict[str, Any]]] = [
        ("greedy", {}),
        *(("sampling", {"temperature": t, "top_k": 0}) for t in (0.7, 1.0, 1.4)),
        ("beam_search", {"num_beams": 4}),
    ]
    return {
        "prompts": list(PROMPTS[:4]),
        "columns": [{"strategy": name, "values": {**length, **own}} for name, own in settings],
        "seeds": 3,
    }


def stream_table(job: PageJob, payload: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Run a table, or go on with it from the results that the journal has.

    Args:
        job: the job that does it.
        payload: what the page sent, see ``read_table_form``, and ``table``, its unguessable id.

    Yields:
        ``plan`` with the rows and columns, ``progress``, ``table`` with new ``cells`` and the
        ``view``; the last one is ``done``.

    Raises:
        EngineError: the plan is not valid.
    """
    plan = read_table_form(payload)
    store = TableStore(plan, payload.get("table"))
    table, done = Table(plan), store.load_results()
    for result in done:
        table.add(result)
    yield {"kind": "plan", **STARTING, **_plan_view(plan)}
    yield {"kind": "table", **_table_state(table, done), **STARTING}
    waiting: list[CellResult] = []
    sent_at = 0.0
    for news in with_progress(job, partial(_run_missing, plan, done)):
        if isinstance(news, CellResult):
            table.add(news)
            store.store_result(news)
            waiting.append(news)
        elif news.get("kind") == "progress":
            yield {**news, **_running_text(table)} if table.results else news
        if waiting and time.monotonic() - sent_at >= _UPDATE_S:
            yield {"kind": "table", **_table_state(table, waiting), **_running_text(table)}
            waiting, sent_at = [], time.monotonic()
    yield {"kind": "done", **_table_state(table, waiting), **_common_error(table)}


def _common_error(table: Table) -> dict[str, str]:
    """Return the ``error`` that every run had, such as an unknown model; nothing if one has a text."""
    errors = [result.error for result in table.results.values()]
    return {"error": errors[0]} if errors and all(errors) else {}


def _run_missing(
    plan: TunePlan, done: list[CellResult], send: EventCallback, cancelled: threading.Event
) -> None:
    for result in run_table(plan, done, cancelled, send, decode):
        send(result)


def _running_text(table: Table) -> dict[str, Any]:
    done, all_runs = len(table.results), len(table.plan.cells)
    says = Message("{done} of {all} texts are written…", done=done, all=all_runs)
    return {"phase": "decoding", "says": says}


def _plan_view(plan: TunePlan) -> dict[str, Any]:
    """Return the rows and columns of a table, and what opens each setting in Explore."""
    settings = []
    for place, (name, setting) in enumerate(zip(plan.names, plan.settings, strict=True)):
        request = plan.request(Cell(0, place, plan.seeds[0]))
        settings.append(
            {
                "name": name,
                "form": to_form(request),
                "link": to_link(request),
                "config": format_config(setting.strategy, setting.params),
                "random": setting.is_random,
            }
        )
    prompts = [
        {"label": one.label, "prompt": one.prompt, "messages": one.messages} for one in plan.prompts
    ]
    return {"settings": settings, "prompts": prompts, "seeds": list(plan.seeds)}


def _table_state(table: Table, news: list[CellResult]) -> dict[str, Any]:
    cells = [
        {
            "setting": one.cell.setting,
            "prompt": one.cell.prompt,
            "seed": one.cell.seed,
            "text": one.text,
            "ended": one.finish_reason,
            "error": one.error,
            "code": _short_code(one.trace),
        }
        for one in news
    ]
    counts = {"done": len(table.results), "all": len(table.plan.cells)}
    return {"cells": cells, **counts, "view": table_view(table)}


def _short_code(trace: Trace | None) -> str | None:
    """Return code that repeats a run, None of an earlier run and of one that a server decoded."""
    return None if trace is None or trace.is_on_server else short_code(plan_export(trace))


def _take_over(payload: Mapping[str, Any]) -> Any:
    """Return the work that goes on with a table whose process has ended."""
    return (lambda job: stream_table(job, payload)) if payload.get("table") else None


TUNE = JobKind("tune", stream_table, take_over=_take_over)
