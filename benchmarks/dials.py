"""What a visitor waits for before any model computes: dragging a dial, opening the page, choosing a strategy.

A server and a headless Chromium on this machine. Each move of a dial is timed until the frame that shows its effect.
What dragging shows is compared with a run of the engine at the value where the dial stops.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.about import Goal
from benchmarks.figures import Figure, tell
from engine import DecodeRequest, decode
from engine.analysis.gallery import FOLDER
from engine.trace import json_io
from engine.trace.events import Finished
from tests.browser_setup import launch_options
from tests.helpers.server import playground

WAIT_MS = 600_000
RECORDED = {"Storyteller": "sampling-1", "SmolLM2": "sampling-smollm2-1"}
LOWEST, HIGHEST = 0.1, 1.5
CONNECTED = "() => window.playground?.page?.connected()"
DRAWN = """(key) => {
  const stage = playground.page.stages.find((one) => one.strategy === key && one.root.isConnected);
  return Boolean(stage?.run?.steps.length) && !stage.dirty && stage.root.querySelector(".dp-tok.sel") !== null;
}"""
# Sets the temperature again and again; milliseconds until the frame after each drawing of a new preview.
DRAG = """async (values) => {
  const input = document.querySelector("#sampling-temperature input[type=range]");
  const stage = playground.page.stages.find((one) => one.strategy === "sampling" && one.root.isConnected);
  const times = [];
  for (const value of values) {
    const before = stage.context.preview, moved = performance.now();
    input.value = value;
    input.dispatchEvent(new Event("input", { bubbles: true }));
    do await new Promise(requestAnimationFrame);
    while (stage.context.preview === before || stage.context.preview?.stale || stage.dirty);
    times.push(performance.now() - moved);
  }
  return times;
}"""
# Selects a step, sets the temperature, and returns the token that the page shows for it, null if none.
DECIDE = """async ([step, value]) => {
  const stage = playground.page.stages.find((one) => one.strategy === "sampling" && one.root.isConnected);
  const input = document.querySelector("#sampling-temperature input[type=range]");
  stage.context.select(step);
  input.value = value;
  if (Number(input.value) !== value) throw new Error(`the dial has no ${value}`);
  input.dispatchEvent(new Event("input", { bubbles: true }));
  const late = performance.now() + 10000;
  let shown = null;
  do {
    await new Promise(requestAnimationFrame);
    shown = stage.context.preview;
  } while ((shown?.step !== step || shown.stale || stage.dirty) && performance.now() < late);
  return shown?.step === step && !shown.stale ? shown.chosen : null;
}"""
# Milliseconds from the press on a strategy's tab to the frame with its picture, and the requests meanwhile.
SWITCH = """async (key) => {
  const drawn = () => {
    const stage = playground.page.stages.find((one) => one.strategy === key && one.root.isConnected);
    return stage?.run && !stage.dirty && stage.root.querySelector(".dp-tok.sel")?.getClientRects().length;
  };
  const before = performance.getEntriesByType("resource").length, pressed = performance.now();
  document.getElementById(`tab-${key}-button`).click();
  do await new Promise(requestAnimationFrame); while (!drawn());
  return [performance.now() - pressed, performance.getEntriesByType("resource").length - before];
}"""


def open_recorded(browser: Browser, url: str, name: str) -> Page:
    """Return a page that shows a recorded run of sampling."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.set_default_timeout(WAIT_MS)
    page.goto(f"{url}/?trace={name}")
    page.wait_for_function(CONNECTED)
    page.wait_for_function(DRAWN, arg="sampling")
    return page


def temperatures(count: int) -> list[float]:
    """Return positions of the dial that cover it evenly."""
    span = HIGHEST - LOWEST
    return [round(LOWEST + span * (0.618034 * i % 1), 2) for i in range(1, count + 1)]


def measure_drags(page: Page, moves: int) -> list[float]:
    """Return milliseconds from each move of the dial to the frame with its effect."""
    page.evaluate(DRAG, temperatures(20))  # the scores of the step arrive once
    return page.evaluate(DRAG, temperatures(moves))


def measure_openings(browser: Browser, url: str, rounds: int) -> list[float]:
    """Return seconds from the address to the first recorded step, each in a browser without a cache."""
    found = []
    for _ in range(rounds):
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        begun = time.perf_counter()
        page.goto(url)
        page.wait_for_function(DRAWN, arg="sampling")
        found.append(time.perf_counter() - begun)
        context.close()
    return found


def measure_switches(page: Page, rounds: int) -> tuple[list[float], int]:
    """Return milliseconds of warm switches between two strategies, and all requests that they made."""
    for key in ("greedy", "sampling"):
        page.evaluate(SWITCH, key)
    found = [page.evaluate(SWITCH, key) for _ in range(rounds) for key in ("greedy", "sampling")]
    return [took for took, _ in found], sum(requests for _, requests in found)


def compare_with_runs(page: Page, count: int) -> tuple[int, int]:
    """Return how many of the page's answers equal a run's token, and how many were compared.

    A run at a position of the dial parts from the recorded one at some step: up to there both read the same
    text. That step is compared, or the last one where the texts are equal.
    """
    recorded = json_io.loads((FOLDER / f"{RECORDED['Storyteller']}.json.gz").read_bytes())
    own = recorded.outputs[0].token_ids
    same = 0
    # At the recording's own position the page shows the recording.
    others = [t for t in temperatures(count + 1) if t != recorded.config["temperature"]]
    for temperature in others[:count]:
        request = DecodeRequest(
            "sampling",
            "storyteller",
            recorded.prompt,
            params={**recorded.config, "temperature": temperature},
            seed=recorded.seed,
        )
        last = list(decode(request))[-1]
        assert isinstance(last, Finished), last
        ids = last.trace.outputs[0].token_ids
        equal = [a == b for a, b in zip(ids, own, strict=False)]
        step = equal.index(False) if False in equal else len(equal) - 1
        same += page.evaluate(DECIDE, [step, temperature]) == ids[step]
    return same, count


def percentile_95(values: list[float]) -> float:
    """Return the value that 95 % of the values do not exceed."""
    return statistics.quantiles(values, n=20, method="inclusive")[-1]


def main() -> None:
    """Print a card for people and one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moves", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--compared", type=int, default=100)
    asked = parser.parse_args()
    figures = []
    with (
        tempfile.TemporaryDirectory() as folder,
        playground(Path(folder) / "log.txt") as url,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(**launch_options())
        for model, name in RECORDED.items():
            page = open_recorded(browser, url, name)
            times = measure_drags(page, asked.moves)
            p95 = [percentile_95(times)]
            figures += [
                Figure(f"{model}: a move of the dial to its frame, ms", times, digits=1),
                Figure(f"{model}: of {len(times)} moves, 95 % within, ms", p95, Goal(50.0), 1),
            ]
            page.close()
        opened = measure_openings(browser, url, asked.rounds)
        figures.append(Figure("first recorded step, s after the address", opened, Goal(1.5), 2))
        page = open_recorded(browser, url, RECORDED["Storyteller"])
        same, compared = compare_with_runs(page, asked.compared)
        figures.append(
            Figure(
                "answers of a dragged dial that equal a run's",
                [same / compared],
                Goal(1.0, at_least=True),
                n=compared,
            )
        )
        page.close()
        page = open_recorded(browser, url, RECORDED["Storyteller"])
        switches, requests = measure_switches(page, asked.rounds)
        figures += [
            Figure("another strategy, warm, ms", switches, Goal(100.0), 1),
            Figure("requests of all warm switches together", [requests], Goal(0.0)),
        ]
        browser.close()
    for figure in figures:
        print(f"  {figure}")
    tell("dials", figures)


if __name__ == "__main__":
    main()
