"""Builds the page from the registry and launches it with every side door closed."""

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

from engine.declare.groups import FAMILIES
from engine.errors import EngineError
from engine.methods import spare
from engine.models.hub import stop_downloads
from engine.models.loading import load
from engine.run.work import stop_all
from engine.settings import SETTINGS
from engine.strategies import STRATEGIES
from playground import (
    audit,
    connections,
    draws,
    languages,
    later,
    lessons,
    logs,
    media_routes,
    metrics,
    recorded,
    refusals,
    replay,
    rich,
    scripts,
    taste,
    watermark_bench,
    zerogpu,
)
from playground.api import add_endpoints
from playground.compare import build_compare
from playground.elements import OF_THE_PAGE, hidden, sent_with
from playground.fork import build_fork
from playground.fresh import FreshHead, Head
from playground.guard import guarded
from playground.journal import JOURNAL
from playground.questions import build_replies
from playground.rooms.registry import Rooms
from playground.rooms.routes import routes as room_routes
from playground.spec import spec, try_models
from playground.stream import whole_state
from playground.tab import QUEUE, build_tab
from playground.translated import translated
from playground.uploads import UPLOADS
from playground.web import middleware

_ENDS = (signal.SIGTERM, signal.SIGINT)
_GIVE_WAY_S = 0.0005
"""How soon what is imported lets others go on."""
_LEAVE_S = 3.0
"""How long runs may take to stop when the server ends."""
_WRITTEN_S = 0.5
"""How long what was sent of them may take to be written down."""
_CLOSE_S = 1.0
"""How long Gradio may take after that: it waits five seconds for streams that nobody ends any more."""


def build_app() -> gr.Blocks:
    """Return the whole page; nothing is loaded or launched yet."""
    with gr.Blocks(title="Decoding Playground", analytics_enabled=False, fill_width=True) as demo:
        gr.HTML(
            "<div class='dp-head'><h1>Decoding Playground</h1>"
            "<a class='dp-lead' href='?tab=lessons'>Lessons</a><p>See how a language model picks its"
            " words: every candidate, every filter and every decision, as it happens.</p></div>",
            elem_id="dp-head",
            apply_default_css=False,
        )
        bus = hidden("dp-bus", scripts.receiving("p.connect((name, data) => trigger(name, data))"))
        bus.input(guarded(_resync), None, bus, concurrency_limit=None, **OF_THE_PAGE)
        build_replies()
        build_fork(bus, QUEUE)
        with gr.Tabs(elem_id="strategies"):
            for family in FAMILIES:
                for strategy in STRATEGIES.values():
                    if strategy.family == family:
                        build_tab(strategy, bus)
            watermark_bench.build_watermark_bench(QUEUE)
            build_compare(bus, QUEUE)
            draws.build_draws(QUEUE)
            taste.build_taste(QUEUE)
            replay.build_replay()
            lessons.build_lessons(QUEUE)
        add_endpoints(QUEUE)
    # The engine's line says who has to wait and who cannot: Gradio's own would refuse Stop as well.
    return demo.queue(max_size=None, api_open=False)


def _resync(event: gr.EventData) -> str:
    return whole_state(str(sent_with(event).get("run", ""))[:64])


def whole_spec() -> dict[str, Any]:
    """Return all that is declared for the page, in English."""
    return {
        **spec(),
        "draws": draws.declaration(),
        "watermark_bench": watermark_bench.declaration(),
        "taste": taste.declaration(),
        "gallery": replay.declaration(),
    }


def page_head(language: str = languages.ENGLISH) -> str:
    """Return what stands in the page's head: its scripts, and what they are given to begin with.

    Args:
        language: of the page's reader.
    """
    place = f"./{recorded.place()}"
    given = {
        "recorded": place,
        "spec": translated(whole_spec(), language),
        "here": scripts.HERE,
        "refusals": "" if later.is_settled() else refusals.PLACE,
        "plotly": scripts.plotly(),
    }
    first = next((p["recorded"] for p in spec()["strategies"][0]["presets"] if p["recorded"]), None)
    return languages.data(language) + scripts.head(
        given, [f"{place}/{first}.json"] if first else []
    )


def serve(host: str, port: int) -> gr.Blocks:
    """Serve the page from threads of this process; ``close()`` of what is returned ends it."""
    demo, rooms = build_app(), Rooms()
    connections.patient()
    later.allow()
    demo.launch(
        server_name=host,
        server_port=port,
        prevent_thread_lock=True,
        quiet=True,
        max_threads=zerogpu.threads(),
        share=False,
        run_history=False,
        enable_monitoring=False,
        show_error=False,
        ssr_mode=False,
        max_file_size=SETTINGS.max_trace_bytes,
        # Gradio keeps a copy of all components for everybody who ever asked for anything.
        state_session_capacity=SETTINGS.max_sessions,
        # It asks itself whether it answers, and gives up where many others ask at that moment.
        _frontend=False,
        head=f"<style>{scripts.styles()}</style>",
        footer_links=[],
        theme=_theme(),
        app_kwargs={
            "middleware": [
                *middleware({n: len(fn.inputs) for n, fn in demo.fns.items()}),
                Middleware(FreshHead, head=Head(page_head, spec), words=languages.told),
            ],
            "routes": [
                *scripts.routes(),
                *recorded.routes(),
                *media_routes.routes(),
                *lessons.routes(),
                *refusals.routes(),
                *audit.routes(),
                *rich.routes(),
                *room_routes(rooms),
                *metrics.routes(rooms),
            ],
            "openapi_url": None,
        },
    )
    return demo


def launch(host: str, port: int) -> None:
    """Serve until SIGTERM or Ctrl-C, then stop running work and leave with status 0."""
    logs.set_up(SETTINGS)
    told = _signals()
    demo = serve(host, port)
    threading.Thread(target=_get_ready, daemon=True).start()
    sys.stdout.write(f"Decoding Playground is at http://{host}:{port}\n")
    sys.stdout.flush()
    while told.recv(1)[0] not in _ENDS:
        continue
    JOURNAL.leave()
    stop_downloads()
    stop_all(_LEAVE_S)
    spare.let_go(for_good=True)
    JOURNAL.close(_WRITTEN_S)
    closing = threading.Thread(target=demo.close, daemon=True)
    closing.start()
    closing.join(_CLOSE_S)
    UPLOADS.clear()
    sys.stdout.flush()
    # A thread that is still within a model's own code aborts an interpreter that takes itself down.
    os._exit(0)


def _signals() -> socket.socket:
    """Return where the numbers of the signals arrive that this process gets, one byte each.

    A handler in Python runs when the main thread wakes; the system may give the signal to another thread,
    and the main thread then sleeps on. What is written here wakes it, whoever got the signal.
    """
    told, tells = socket.socketpair()
    tells.setblocking(False)
    signal.set_wakeup_fd(tells.detach())
    for name in _ENDS:
        signal.signal(name, lambda *_: None)
    # On a ZeroGPU a run has a forked process: what ends that one is not for the server.
    os.register_at_fork(after_in_child=_no_signals)
    return told


def _no_signals() -> None:
    """Let signals end this process as they end any other, and be told to nobody."""
    signal.set_wakeup_fd(-1)
    for name in _ENDS:
        signal.signal(name, signal.SIG_DFL)


def _theme() -> themes.Base:
    """Return the theme of what Gradio draws; its fonts are those of the machine."""
    return themes.Base(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])


def _get_ready() -> None:
    """Bring what was put off and the first tab's model, so that the first Run waits for neither."""
    usual = sys.getswitchinterval()
    # An import gives way only when it is told to, and the page is being fetched meanwhile.
    sys.setswitchinterval(_GIVE_WAY_S)
    try:
        later.bring()
    finally:
        sys.setswitchinterval(usual)
    with contextlib.suppress(EngineError):
        load(next(iter(STRATEGIES.values())).default_model)
    try_models()
    later.settle()
