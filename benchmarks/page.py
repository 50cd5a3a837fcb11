"""What the page costs: how soon it answers, and how long it stands still while a run is drawn.

A server and a headless Chromium on this machine. Every figure stands beside one of the same kind
that was taken in turns with it, so that a noisy machine disturbs both alike: the first token on the
page beside the first token in the engine, the longest gap between two frames while a run is drawn
beside the longest gap of the same page at rest, the last steps of a tree beside its first.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.figures import spread_of, tell
from tests.browser_setup import launch_options
from tests.helpers.server import playground

WAIT_MS = 600_000
RUNS = {
    "beam tree, 60 steps of 8 beams": (
        "beam_search",
        "One day, a little boy found a",
        {"max_new_tokens": 60, "num_beams": 8},
    ),
    "layer map, 200 steps of 17 layers": (
        "dola",
        "Once upon a time, there was a little",
        {"max_new_tokens": 200, "min_new_tokens": 200, "dola_layers": "high"},
    ),
}
LONG = json.dumps({"max_new_tokens": 512, "min_new_tokens": 512, "guidance_scale": 1.5})
READY = "window.playground?.page?.connected() && document.querySelector('#greedy-run')"
# Notes the longest gap between two frames until it is asked for it.
WATCH = """() => {
  let last = performance.now();
  window.gap = 0;
  const tick = (now) => {
    window.gap = Math.max(window.gap, now - last);
    last = now;
    window.frame = requestAnimationFrame(tick);
  };
  window.frame = requestAnimationFrame(tick);
}"""
GAP = "() => { cancelAnimationFrame(window.frame); return window.gap; }"
ENDED = """([key, before]) => {
  const run = playground.page.shown(key);
  return run && run.id !== before && ["finished", "failed"].includes(run.status);
}"""
UNDER_WAY = """() => {
  const run = playground.page.shown("greedy");
  return run?.status === "running" && run.steps.length > 0;
}"""
# Milliseconds from pressing Run to the frame that shows the first token.
FIRST = """() => new Promise((done) => {
  const before = playground.page.runId("greedy"), pressed = performance.now();
  const look = () => {
    const run = playground.page.shown("greedy");
    if (run && run.id !== before && document.querySelector("#greedy-stage .dp-tok[data-step]")
      && playground.page.stages.some((s) => s.run === run && s.drawn)) done(performance.now() - pressed);
    else requestAnimationFrame(look);
  };
  document.getElementById("greedy-run").click();
  look();
})"""
# The steps of the tree again, one a frame: milliseconds that drawing each of them takes.
STEPS = """async () => {
  const key = "beam_search", old = playground.page.shown(key), times = [];
  const later = ["steps", "outputs", "timing", "metrics", "notes"];
  const kept = [...old.fields, "fields"].filter((field) => !later.includes(field));
  const header = Object.fromEntries(kept.map((field) => [field, old[field]]));
  const stage = playground.page.stages.find((s) => s.strategy === key);
  const { view } = stage.views.find((v) => v.name === "beam_tree"), { update } = view;
  let seq = 0;
  const send = async (message) => {
    playground.page.receive(JSON.stringify({ run: old.id + "-again", seq: seq++, ...message }));
    do await new Promise(requestAnimationFrame); while (stage.dirty);
  };
  await send({ kind: "start", strategy: key, header, link: location.href });
  view.update = (...given) => {
    const start = performance.now();
    update(...given);
    times.push(performance.now() - start);
  };
  for (const [i, step] of old.steps.entries())
    await send({ kind: "delta", steps: [step], shown: [old.shown[i]] });
  view.update = update;
  return times;
}"""


def opened(browser: Browser, url: str, path: str = "/?tab=greedy") -> tuple[Page, float]:
    """Return a page and the seconds until Run could be pressed."""
    page = browser.new_page(viewport={"width": 1440, "height": 1000})
    page.set_default_timeout(WAIT_MS)
    started = time.perf_counter()
    page.goto(url + path)
    page.wait_for_function(READY)
    return page, time.perf_counter() - started


def spread(values: list[float], digits: int = 3) -> dict[str, Any]:
    """Return median, least and most of some values."""
    ends = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return {"n": len(values), **{name: round(value, digits) for name, value in ends.items()}}


def start_of_page(browser: Browser, url: str, rounds: int) -> dict[str, Any]:
    """Measure seconds until Run can be pressed, and count what the page is made of."""
    seconds, nodes, components = [], 0, 0
    for _ in range(rounds):
        page, took = opened(browser, url)
        seconds.append(took)
        nodes = page.evaluate("document.querySelectorAll('*').length")
        components = page.evaluate("window.gradio_config.components.length")
        page.close()
    return {"ready_s": spread(seconds), "nodes": nodes, "components": components}


def first_token(browser: Browser, url: str, rounds: int) -> dict[str, Any]:
    """Measure the first token on the page beside the engine's own time for it."""
    page, _ = opened(browser, url)
    shown, extra = [], []
    for number in range(rounds + 1):
        before = page.evaluate("playground.page.runId('greedy')")
        took = page.evaluate(FIRST)
        page.wait_for_function(ENDED, arg=["greedy", before])
        own = page.evaluate("1000 * playground.page.shown('greedy').timing.first_token_s")
        if number:  # the first run may have waited for the model
            shown.append(took)
            extra.append(took - own)
    page.close()
    return {"shown_ms": spread(shown, 1), "beside_the_engine_ms": spread(extra, 1)}


def freed(browser: Browser, url: str, rounds: int) -> dict[str, Any]:
    """Measure how long a run waits for the model after a tab was closed in the middle of another.

    Beside it, how long a run waits when there was none before it.
    """
    page, _ = opened(browser, url)
    after, alone = [], []
    for number in range(2 * rounds):
        if number % 2:
            fields = {"strategy": "greedy", "prompt": "Once upon a time", "params": LONG}
            other, _ = opened(browser, url, "/?" + urlencode(fields))
            other.wait_for_function(UNDER_WAY)
            other.close()
        before = page.evaluate("playground.page.runId('greedy')")
        page.click("#greedy-run")
        page.wait_for_function(ENDED, arg=["greedy", before])
        waited = page.evaluate("playground.page.shown('greedy').timing.queue_s")
        (after if number % 2 else alone).append(waited)
    page.close()
    return {"after_s": spread(after), "alone_s": spread(alone)}


def gaps(browser: Browser, url: str, name: str, rounds: int) -> dict[str, Any]:
    """Measure the longest gap between frames while a run is drawn, and at rest for as long."""
    strategy, prompt, params = RUNS[name]
    fields = {"strategy": strategy, "prompt": prompt, "params": json.dumps(params)}
    page, _ = opened(browser, url, "/?" + urlencode(fields))
    page.wait_for_function(ENDED, arg=[strategy, ""])
    drawing, resting = [], []
    for _ in range(rounds):
        before = page.evaluate("key => playground.page.runId(key)", strategy)
        page.evaluate(WATCH)
        started = time.perf_counter()
        page.click(f"#{strategy}-run")
        page.wait_for_function(ENDED, arg=[strategy, before])
        drawing.append(page.evaluate(GAP))
        took = time.perf_counter() - started
        page.evaluate(WATCH)
        page.wait_for_timeout(1000 * took)
        resting.append(page.evaluate(GAP))
    late = []
    if strategy == "beam_search":
        for _ in range(rounds):
            page.reload()
            page.wait_for_function(ENDED, arg=[strategy, ""])
            times = page.evaluate(STEPS)
            late.append(statistics.median(times[-20:]) / statistics.median(times[5:25]))
    page.close()
    return {
        "run": name,
        "drawing_ms": spread(drawing, 1),
        "resting_ms": spread(resting, 1),
        **({"late_step_over_early": spread(late, 2)} if late else {}),
    }


def main() -> None:
    """Print a card for people and one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with (
        tempfile.TemporaryDirectory() as folder,
        playground(Path(folder) / "log.txt") as url,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(**launch_options())
        page = start_of_page(browser, url, rounds)
        first = first_token(browser, url, rounds)
        waited = freed(browser, url, rounds)
        drawn = [gaps(browser, url, name, rounds) for name in RUNS]
        browser.close()
    ready, shown, extra = page["ready_s"], first["shown_ms"], first["beside_the_engine_ms"]
    print(f"The page in headless Chromium, n={rounds}, median (least–most)")
    print(
        f"  Run can be pressed after {ready['median']} s ({ready['min']}–{ready['max']}), "
        f"{page['components']} components, {page['nodes']} nodes"
    )
    print(
        f"  first token {shown['median']} ms after Run ({shown['min']}–{shown['max']}), "
        f"{extra['median']} ms of it not the engine's"
    )
    after, alone = waited["after_s"], waited["alone_s"]
    print(
        f"  the model is free {after['median']} s after a tab was closed in mid-run "
        f"({after['min']}–{after['max']}), {alone['median']} s when nobody was before"
    )
    for r in drawn:
        print(
            f"  {r['run']}: longest gap between frames {r['drawing_ms']['median']} ms "
            f"({r['drawing_ms']['min']}–{r['drawing_ms']['max']}), at rest "
            f"{r['resting_ms']['median']} ms"
        )
        if "late_step_over_early" in r:
            print(f"    a late step takes {r['late_step_over_early']['median']} × an early one")
    figures = [
        spread_of("Run can be pressed, s after the address", ready),
        spread_of("first token on the page, ms after Run", shown),
        spread_of("of it not the engine's, ms", extra),
        spread_of("the model is free, s after a tab was closed in mid-run", after),
        spread_of("the same when nobody was before, s", alone),
    ]
    for r in drawn:
        figures.append(spread_of(f"{r['run']}: longest gap between frames, ms", r["drawing_ms"]))
        figures.append(spread_of(f"{r['run']}: the same at rest, ms", r["resting_ms"]))
        if "late_step_over_early" in r:
            late = r["late_step_over_early"]
            figures.append(spread_of(f"{r['run']}: a late step ÷ an early one", late))
    tell("page", figures, components=page["components"], nodes=page["nodes"])


if __name__ == "__main__":
    main()
