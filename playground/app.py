"""The Gradio app: builds the page from the strategy registry, serves it, and shuts it down."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from typing import Any

import gradio as gr
from gradio import themes
from starlette.middleware import Middleware

from engine.declare.groups import STRATEGY_GROUPS
from engine.errors import EngineError
from engine.models.loading import load
from engine.run.jobs import stop_all_jobs
from engine.sandbox import prewarmed_process
from engine.settings import SETTINGS
from engine.strategies import STRATEGIES
from playground.forms.spec import find_refused_models, page_spec
from playground.i18n import languages
from playground.i18n.translate_spec import translate_spec
from playground.inspect import generate_outputs
from playground.inspect.model_install import install_allowed_models
from playground.inspect.questions import build_question_bus
from playground.jobs import zerogpu
from playground.rooms.registry import RoomRegistry
from playground.rooms.routes import routes as room_routes
from playground.rooms.store import open_room_store
from playground.runs.stream import run_state
from playground.server import (
    audit,
    idle_timeout,
    logs,
    media_routes,
    metrics,
    openai_routes,
    refusals,
)
from playground.server.api import add_endpoints
from playground.server.middleware import build_middleware
from playground.server.tools import add_tools
from playground.shell import lazy_imports, scripts
from playground.shell.elements import PAGE_EVENT, add_hidden_element, event_data
from playground.shell.endpoints import keep_schemas_from_browsers
from playground.shell.guard import guard_handler
from playground.shell.page_head import CachedHead, HeadMiddleware
from playground.storage.abandoned_folders import remove_all_abandoned_folders
from playground.storage.journal import JOURNAL
from playground.storage.uploads import OWN_FOLDER
from playground.tabs import draws, lessons, recorded_runs, replay, taste, tune, watermark_bench
from playground.tabs.compare import build_compare
from playground.tabs.fork import build_fork
from playground.tabs.strategy_tab import build_tab

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SWITCH_INTERVAL_S = 0.0005
"""Thread switch interval while imports run in the background."""
_STOP_RUNS_S = 3.0
"""Seconds that runs get to stop at shutdown."""
_FLUSH_S = 0.5
"""Seconds to flush the journal at shutdown."""
_CLOSE_TIMEOUT_S = 1.0
"""Seconds for Gradio to close; it would wait five for streams that nothing ends."""

FIRST_TAB = "sampling"
"""The strategy that a first visitor sees: its recorded run has a dial that changes it."""


def build_app() -> gr.Blocks:
    """Return the Gradio page, without loading a model or starting a server."""
    with gr.Blocks(title="Decoding Playground", analytics_enabled=False, fill_width=True) as demo:
        gr.HTML(
            "<div class='dp-head'><a class='dp-skip' href='#strategies'>Skip to the prompt</a>"
            "<h1>Decoding Playground</h1>"
            "<nav class='dp-places' aria-label='Decoding Playground'>"
            "<a href='?tab=lessons' data-place='learn'>Learn</a>"
            "<a href='./' data-place='explore'>Explore</a>"
            "<a href='?tab=compare' data-place='compare'>Compare</a>"
            "<a href='?tab=replay' data-place='library'>Library</a></nav>"
            "<p>See how a language model picks its words: every candidate, every filter and every "
            "decision, as it happens.</p></div>",
            elem_id="dp-head",
            apply_default_css=False,
        )
        bus = add_hidden_element(
            "dp-bus", scripts.on_message("p.connect((name, data) => trigger(name, data))")
        )
        bus.input(guard_handler(_resync), None, bus, concurrency_limit=None, **PAGE_EVENT)
        build_question_bus()
        build_fork(bus)
        with gr.Tabs(elem_id="strategies", selected=FIRST_TAB):
            for group in STRATEGY_GROUPS:
                for strategy in STRATEGIES.values():
                    if strategy.group == group:
                        build_tab(strategy, bus)
            watermark_bench.build_watermark_bench()
            build_compare(bus)
            tune.build_tune()
            draws.build_draws()
            taste.build_taste()
            replay.build_replay()
            lessons.build_lessons()
        add_endpoints()
        add_tools()
    # The engine's queue decides who waits; a limit on Gradio's queue would refuse Stop as well.
    demo.queue(max_size=None, api_open=False)
    keep_schemas_from_browsers(demo)
    return demo


def _resync(event: gr.EventData) -> str:
    return run_state(str(event_data(event).get("run", ""))[:64])


def whole_spec() -> dict[str, Any]:
    """Return the page's whole declaration in English, as JSON values."""
    return {
        **page_spec(),
        "draws": draws.declaration(),
        "watermark_bench": watermark_bench.declaration(),
        "taste": taste.declaration(),
        "tune": tune.declaration(),
        "gallery": replay.declaration(),
    }


def page_head(language: str = languages.ENGLISH) -> str:
    """Return the HTML for the page's head: its scripts and their initial data.

    Args:
        language: the reader's language code.
    """
    given = {
        "recorded": f"./{recorded_runs.recorded_path()}",
        "spec": translate_spec(whole_spec(), language),
        "here": scripts.PING_URL,
        # Which models a strategy refuses is known only once torch is loaded; the page asks for it
        # later.
        "refusals": "" if lazy_imports.is_finished() else refusals.REFUSALS_URL,
        "plotly": scripts.plotly_url(),
    }
    return languages.catalogue_elements(language) + scripts.head_html(given)


def preload_head(query: str) -> str:
    """Return the HTML that preloads the recording that an address opens with; empty if none is known.

    Args:
        query: the address's query string.
    """
    name = recorded_runs.find_recording(query, FIRST_TAB)
    path = f"./{recorded_runs.recorded_path()}/{name}.json"
    return scripts.preload_html(path) if name else ""


def serve(host: str, port: int) -> gr.Blocks:
    """Serve the page from threads of this process; ``close()`` of the returned app stops it."""
    demo, rooms = build_app(), RoomRegistry(open_room_store(JOURNAL))
    idle_timeout.install_idle_timeout()
    # ForwardedHeaders decides which proxies count; uvicorn's own list would hide the peer from it.
    os.environ["FORWARDED_ALLOW_IPS"] = ""
    # From here on other threads import modules.
    lazy_imports.uninstall()
    demo.launch(
        server_name=host,
        server_port=port,
        prevent_thread_lock=True,
        quiet=True,
        # Every waiting run blocks one thread.
        max_threads=zerogpu.server_threads(),
        share=False,
        run_history=False,
        enable_monitoring=False,
        mcp_server=SETTINGS.mcp,
        show_error=False,
        ssr_mode=False,
        max_file_size=SETTINGS.max_trace_bytes,
        # Gradio keeps a copy of all components for every session.
        state_session_capacity=SETTINGS.max_sessions,
        # True makes Gradio request its own page at start, and give up if the server is busy.
        _frontend=False,
        head=f"<style>{scripts.joined_styles()}</style>",
        footer_links=[],
        theme=_theme(),
        app_kwargs={
            "middleware": [
                *build_middleware({n: len(fn.inputs) for n, fn in demo.fns.items()}),
                Middleware(
                    HeadMiddleware,
                    head=CachedHead(page_head, page_spec),
                    preload=preload_head,
                    words=languages.server_catalogue,
                ),
            ],
            "routes": [
                *scripts.routes(),
                *recorded_runs.routes(),
                *media_routes.routes(),
                *openai_routes.routes(),
                *lessons.routes(),
                *refusals.routes(),
                *audit.routes(),
                *generate_outputs.routes(),
                *room_routes(rooms),
                *metrics.routes(rooms.count_open),
            ],
            "openapi_url": None,
        },
    )
    return demo


def launch(host: str, port: int) -> None:
    """Serve until SIGTERM or Ctrl-C, then stop running work and exit with status 0."""
    logs.set_up_logging(SETTINGS)
    remove_all_abandoned_folders()
    told = _open_signal_pipe()
    demo = serve(host, port)
    threading.Thread(target=_warm_up, daemon=True).start()
    sys.stdout.write(f"Decoding Playground is at http://{host}:{port}\n")
    sys.stdout.flush()
    while told.recv(1)[0] not in _STOP_SIGNALS:
        continue
    # Before the runs stop: their endings must not be stored, so that another process takes them
    # over.
    JOURNAL.leave()
    stop_all_jobs(_STOP_RUNS_S)
    prewarmed_process.end_prewarmed_process(for_good=True)
    JOURNAL.close(_FLUSH_S)
    closing = threading.Thread(target=demo.close, daemon=True)
    closing.start()
    closing.join(_CLOSE_TIMEOUT_S)
    # ``os._exit`` below skips atexit handlers.
    OWN_FOLDER.remove()
    sys.stdout.flush()
    # A normal exit aborts if a thread is still inside native model code.
    os._exit(0)


def _open_signal_pipe() -> socket.socket:
    """Return a socket that receives one byte, the signal number, for each signal.

    Python runs signal handlers in the main thread only. If the system delivers a signal to another
    thread, the main thread keeps sleeping; a read from this socket wakes it.
    """
    told, tells = socket.socketpair()
    tells.setblocking(False)
    signal.set_wakeup_fd(tells.detach())
    for name in _STOP_SIGNALS:
        signal.signal(name, lambda *_: None)
    # On ZeroGPU each run is a forked process; signals sent to it must not reach the server.
    os.register_at_fork(after_in_child=_reset_signals)
    return told


def _reset_signals() -> None:
    """Restore default signal handling in a forked child."""
    signal.set_wakeup_fd(-1)
    for name in _STOP_SIGNALS:
        signal.signal(name, signal.SIG_DFL)


def _theme() -> themes.Base:
    return themes.Base(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])


def _warm_up() -> None:
    """Finish the deferred imports and load the first tab's model ahead of the first Run."""
    usual = sys.getswitchinterval()
    # Imports hold the interpreter for long stretches while the page is being fetched.
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    try:
        lazy_imports.load_all()
    finally:
        sys.setswitchinterval(usual)
    with contextlib.suppress(EngineError):
        load(STRATEGIES[FIRST_TAB].default_model)
    with contextlib.suppress(EngineError):
        install_allowed_models()
    find_refused_models()
    lazy_imports.finish()
