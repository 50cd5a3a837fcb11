"""What a start costs: from the command to a page, from its address to a word, from Run to the first token.

Each round starts a server of its own and opens its page in a headless Chromium at once, with nothing
kept by the browser. Beside wall seconds stand processor seconds of the server, which others on the
machine disturb less. With ``--beside`` another checkout is measured in turns with this one.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.about import Goal
from benchmarks.figures import spread_of, tell
from benchmarks.page import ENDED, FIRST, READY, spread
from tests.browser_setup import launch_options
from tests.helpers.server import free_port

HERE = Path(__file__).parents[1]
WAIT_S = 600.0
_POLL_S = 0.005
# What app.py does before it listens, part by part.
PARTS = """
import json, os, runpy, sys, time
took, last = {}, [time.perf_counter(), time.process_time()]
def part(name):
    now = [time.perf_counter(), time.process_time()]
    took[name] = [round(b - a, 4) for a, b in zip(last, now)]
    last[:] = now
runpy.run_path("app.py")
part("import")
from playground import app
app.build_app()
part("declare")
app.page_head()
part("head")
took["modules"] = len(sys.modules)
print(json.dumps(took))
"""
# Notes when the first token of a recorded run is on the screen, and when Run can be pressed.
WATCH = """
window.marks = {};
const look = () => {
  if (!marks.token && document.querySelector("#greedy-stage .dp-tok[data-step]"))
    requestAnimationFrame((now) => (marks.token ??= now));
  if (!marks.ready && READY) marks.ready = performance.now();
  if (!marks.token || !marks.ready) requestAnimationFrame(look);
};
requestAnimationFrame(look);
""".replace("READY", READY)


def environment(port: int) -> dict[str, str]:
    """Return what a server of this benchmark is started with: compiled files are kept, as after an install."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PLAYGROUND_PORT": str(port), "PLAYGROUND_JOURNAL": ""}


def parts(tree: Path) -> dict[str, Any]:
    """Return wall and processor seconds of importing, declaring and the head, in a process of its own."""
    told = subprocess.run(
        [sys.executable, "-c", PARTS],
        cwd=tree,
        env=environment(0),
        capture_output=True,
        text=True,
        check=True,
        timeout=WAIT_S,
    )
    return json.loads(told.stdout.splitlines()[-1])


def processor_s(pid: int) -> float:
    """Return the processor seconds that a process has used (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def server(tree: Path) -> Iterator[tuple[str, int, dict[str, float]]]:
    """Serve a checkout; yields the address, the process and what it took until the port answered."""
    port = free_port()
    started = time.perf_counter()
    served = subprocess.Popen(
        [sys.executable, "app.py"],
        cwd=tree,
        env=environment(port),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
    )
    try:
        while not _listens(port):
            assert served.poll() is None, "the server ended"
            assert time.perf_counter() - started < WAIT_S, "the server does not listen"
            time.sleep(_POLL_S)
        took = {
            "listening_s": time.perf_counter() - started,
            "listening_cpu_s": processor_s(served.pid),
        }
        yield f"http://127.0.0.1:{port}", served.pid, took
        served.send_signal(signal.SIGTERM)
        assert served.wait(WAIT_S) == 0
    finally:
        served.kill()
        served.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def opened(browser: Browser, url: str) -> tuple[Page, dict[str, float]]:
    """Return a page of a browser that knows nothing, and seconds from its address to what it shows."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    context.add_init_script(WATCH)
    page = context.new_page()
    page.set_default_timeout(1000 * WAIT_S)
    page.goto(f"{url}/?tab=greedy")
    page.wait_for_function("marks.token && marks.ready")
    marks = page.evaluate("marks")
    return page, {"token_s": marks["token"] / 1000, "pressable_s": marks["ready"] / 1000}


def first_token(page: Page) -> tuple[float, float]:
    """Press Run; return milliseconds to the first token on the screen, and the engine's own for it."""
    before = page.evaluate("playground.page.runId('greedy')")
    shown = page.evaluate(FIRST)
    page.wait_for_function(ENDED, arg=["greedy", before])
    return shown, page.evaluate("1000 * playground.page.shown('greedy').timing.first_token_s")


def round_of(browser: Browser, tree: Path, runs: int, model: str) -> dict[str, list[float]]:
    """Start a server and measure all of it once; Run is pressed at once, and then again and again."""
    told: dict[str, list[float]] = {}
    for name, part in parts(tree).items():
        if name != "modules":
            told[f"{name}_s"], told[f"{name}_cpu_s"] = [part[0]], [part[1]]
    with server(tree) as (url, pid, took):
        page, shown = opened(browser, url)
        told |= {name: [value] for name, value in {**took, **shown}.items()}
        told["command_to_page_s"] = [took["listening_s"] + shown["pressable_s"]]
        told["run_at_once_s"] = [first_token(page)[0] / 1000]
        told["all_there_cpu_s"] = [processor_s(pid)]
        later = [first_token(page) for _ in range(runs)]
        told["run_ms"] = [ms for ms, _ in later]
        told["run_beside_engine_ms"] = [ms - own for ms, own in later]
        again, shown = opened(browser, url)
        told |= {f"later_{name}": [value] for name, value in shown.items()}
        again.context.close()
        if model:
            fields = {"strategy": "greedy", "prompt": "Once upon a time", "model": model}
            page.goto(f"{url}/?{urlencode(fields)}")
            page.wait_for_function(ENDED, arg=["greedy", ""])
            told["run_model_ms"] = [first_token(page)[0] for _ in range(runs)]
        page.context.close()
    return told


SAID = {
    "import_s": "importing, wall s",
    "import_cpu_s": "  importing, processor s",
    "declare_s": "declaring the page, wall s",
    "declare_cpu_s": "  declaring, processor s",
    "head_s": "its head, wall s",
    "head_cpu_s": "  head, processor s",
    "listening_s": "command to a port that answers, wall s",
    "listening_cpu_s": "  until then, processor s",
    "token_s": "address to the first recorded token, s",
    "pressable_s": "address to a page that can be pressed, s",
    "command_to_page_s": "command to that page, s",
    "run_at_once_s": "Run pressed then, to the first token, s",
    "all_there_cpu_s": "  server until that run ended, processor s",
    "run_ms": "Run to the first token, ms",
    "run_beside_engine_ms": "  Run to the first token, not the engine's, ms",
    "later_token_s": "the same address later, to the first recorded token, s",
    "later_pressable_s": "  the same address later, to a page that can be pressed, s",
    "run_model_ms": "Run to the first token of the other model, ms",
}

GOALS = {
    "command_to_page_s": Goal(6.0, of_speed=True),
    "token_s": Goal(1.5, of_speed=True),
    "run_ms": Goal(250.0, of_speed=True),
}


def main() -> None:
    """Print a card for people and one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--runs", type=int, default=5, help="of Run in every round")
    parser.add_argument("--model", default="", help="another model to run, such as smollm2")
    parser.add_argument("--beside", type=Path, help="another checkout, measured in turns")
    given = parser.parse_args()
    trees = {"this": HERE} | ({"beside": given.beside.resolve()} if given.beside else {})
    found: dict[str, dict[str, list[float]]] = {name: {} for name in trees}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**launch_options())
        for tree in trees.values():
            parts(tree)  # compiles what was never imported
        for _ in range(given.rounds):
            for name, tree in trees.items():
                for what, values in round_of(browser, tree, given.runs, given.model).items():
                    found[name].setdefault(what, []).extend(values)
        browser.close()
    results = {name: {k: spread(v) for k, v in told.items()} for name, told in found.items()}
    for name, told in results.items():
        print(f"A start ({name}), {given.rounds} rounds, median (least–most)")
        for what, said in SAID.items():
            if what in told:
                one = told[what]
                print(f"  {said}: {one['median']} ({one['min']}–{one['max']}), n={one['n']}")
    figures = [
        spread_of(SAID[what].strip(), spread, GOALS.get(what))
        for what, spread in results["this"].items()
        if what in SAID
    ]
    tell("start", figures)


if __name__ == "__main__":
    main()
