"""Builds the page from the registry and launches it with every side door closed."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import gradio as gr
import plotly
from gradio import themes

from engine.declare.groups import FAMILIES
from engine.errors import EngineError
from engine.models.loading import load
from engine.settings import SETTINGS
from engine.strategies import STRATEGIES
from playground import scripts
from playground.api import add_endpoint
from playground.compare import build_compare
from playground.compare_spec import spec
from playground.configs import wire_panel
from playground.draws import build_draws
from playground.export import build_replies
from playground.fork import build_fork
from playground.guard import guarded
from playground.links import request_of
from playground.replay import WELCOME, build_replay, welcome
from playground.stream import JOURNAL, whole_state
from playground.tab import QUEUE, Tab, build_tab
from playground.watermark_bench import build_watermark_bench
from playground.web import middleware

# A tab that was never open is drawn when it is selected; its button comes later.
_PRESS_RUN = """() => playground.then((p) => p.whenThere(
  () => [document.getElementById('{name}-run')].find((run) => run && run.offsetParent),
  (run) => run.click(),
))"""
PLOTLY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"


def build_app() -> gr.Blocks:
    """Return the whole page; nothing is loaded or launched yet."""
    with gr.Blocks(title="Decoding Playground", analytics_enabled=False) as demo:
        gr.HTML(
            "<div class='dp-head'><h1>Decoding Playground</h1><p>See how a language model picks its"
            " words: every candidate, every filter and every decision, as it happens.</p></div>"
        )
        bus = gr.HTML(
            "",
            visible="hidden",
            elem_id="dp-bus",
            html_template="<span></span>",
            js_on_load=scripts.receiving("p.connect((name, data) => trigger(name, data))"),
        )
        bus.input(
            _resync,
            None,
            bus,
            concurrency_limit=None,
            api_visibility="private",
            show_progress="hidden",
        )
        replies = build_replies()
        build_fork(bus, QUEUE)
        built: list[Tab] = []
        inner: dict[str, Any] = {}
        with gr.Tabs() as outer:
            for family, title in FAMILIES.items():
                with gr.Tab(title, id=family, elem_id=f"family-{family}"), gr.Tabs() as tabs:
                    inner[family] = tabs
                    members = [s for s in STRATEGIES.values() if s.family == family]
                    built += [build_tab(strategy, bus) for strategy in members]
                    if family == "watermark":
                        build_watermark_bench(QUEUE)
            build_compare(bus, QUEUE)
            build_draws(QUEUE)
            build_replay()
        for tab in built:
            wire_panel(tab.panel, replies, tab)
        for name in STRATEGIES:
            add_endpoint(name, QUEUE)
        _restore_from_link(outer, inner, built)
    return demo.queue(max_size=SETTINGS.max_waiting_runs, api_open=False)


def _resync(event: gr.EventData) -> str:
    return whole_state(str(event._data.get("run", ""))[:64])


def _restore_from_link(outer: Any, inner: dict[str, Any], built: list[Tab]) -> None:
    """A copied link fills the controls of its strategy and runs it again.

    Only the strategy that the address names asks: one event for all of them would have every
    control of the page as its output, and every visit would wait while Gradio walks them.
    """
    for tab in built:
        name = tab.strategy.name
        asking = gr.HTML(
            "",
            visible="hidden",
            html_template="<span></span>",
            js_on_load="const { search } = location;"
            f"if (new URLSearchParams(search).get('strategy') === '{name}') trigger('input', {{ search }});",
        )
        asking.input(
            guarded(_restorer(tab)),
            None,
            [outer, inner[tab.strategy.family], *tab.inputs],
            concurrency_limit=None,
            api_visibility="private",
            show_progress="hidden",
        ).success(None, None, None, api_visibility="private", js=_PRESS_RUN.format(name=name))


def _restorer(tab: Tab) -> Callable[..., list[Any]]:
    def restore(event: gr.EventData) -> list[Any]:
        wanted = request_of(dict(parse_qsl(str(event._data.get("search", ""))[1:])))
        if wanted is None or wanted.strategy != tab.strategy.name:
            raise EngineError("The link names no strategy of this tab.")
        selected = [gr.Tabs(selected=tab.strategy.family), gr.Tabs(selected=tab.strategy.name)]
        return [*selected, *tab.updates(wanted)]

    return restore


def page_head() -> str:
    """Return the page's head: its styles, its scripts, and what they are given to begin with."""
    given = {
        "recorded": welcome(),
        "key": WELCOME,
        "spec": spec(),
        "plotly": f"./gradio_api/file={PLOTLY}",
    }
    return scripts.head(given)


def launch(host: str, port: int) -> None:
    """Serve until SIGTERM or Ctrl-C, then stop running work and leave with status 0."""
    demo = build_app()
    gr.set_static_paths([PLOTLY])
    threading.Thread(target=_warm_up, daemon=True).start()
    demo.launch(
        server_name=host,
        server_port=port,
        prevent_thread_lock=True,
        quiet=True,
        share=False,
        run_history=False,
        enable_monitoring=False,
        show_error=False,
        ssr_mode=False,
        max_file_size=SETTINGS.max_trace_bytes,
        head=page_head(),
        footer_links=[],
        theme=_theme(),
        app_kwargs={"middleware": middleware(), "routes": scripts.routes(), "openapi_url": None},
    )
    sys.stdout.write(f"Decoding Playground is at http://{host}:{port}\n")
    sys.stdout.flush()
    ended = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: ended.set())
    ended.wait()
    JOURNAL.cancel_all()
    demo.close()


def _theme() -> themes.Base:
    """Return the theme; white on Base's own primary colour has a contrast of 3.7 only."""
    theme = themes.Base(
        font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"]
    )
    return theme.set(
        button_primary_background_fill="*primary_600",
        button_primary_background_fill_hover="*primary_700",
    )


def _warm_up() -> None:
    """Load the first tab's model so that the first Run does not wait for it."""
    try:
        load(next(iter(STRATEGIES.values())).default_model)
    except EngineError:
        return
