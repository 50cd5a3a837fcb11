"""What a long run costs: its file, a step of it in the engine, and the page that draws it.

A file is measured as gzip of 200 steps with 20 candidates. A step of the engine is the processor time of
the run's thread without the model's own forward passes, by the hundred. Of the page it is told how long
its main thread stood still at a stretch, 50 ms and more, as a share of the run: by the clock, as the
browser tells it, and by the processor time of that thread, which other work on the machine does not
change; and how many elements it is made of, the text's own tokens apart.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

os.environ.setdefault("PLAYGROUND_MAX_NEW_TOKENS", "4096")
os.environ.setdefault("PLAYGROUND_MAX_RUNTIME_S", "3600")

from playwright.sync_api import Browser, sync_playwright

from benchmarks.timing import timed
from engine import DecodeRequest, decode
from engine.models.loading import LoadedModel
from engine.strategies import STRATEGIES
from engine.trace import json_io
from engine.trace.events import StepRecorded
from engine.trace.records import Trace
from tests.browser_setup import launch_options
from tests.helpers.models import tiny_llama
from tests.helpers.server import playground
from tests.helpers.tokenizers import make_sentencepiece

WAIT_MS = 1_800_000
LONG_MS = 50
PROMPT = "My name is"
PICTURES: dict[str, dict[str, Any]] = {
    "sampling": {},
    "beam_search": {"num_beams": 5},
    "dola": {"dola_layers": "high"},
}
ENDED = """key => {
  const run = playground.page.shown(key);
  return run && ["finished", "failed", "stopped"].includes(run.status);
}"""
WATCH = """key => {
  window.still = 0;
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) window.still += duration;
  }).observe({ type: "longtask" });
  window.counted = {};
  const count = (query) => document.querySelectorAll(query).length;
  setInterval(() => {
    const at = 100 * Math.floor((playground.page.shown(key)?.steps.length ?? 0) / 100);
    if (at && !window.counted[at]) window.counted[at] = count("*") - count(".dp-v-strip *");
  }, 100);
}"""


def run(name: str, model: Any, params: dict[str, Any]) -> Trace:
    """Return the trace of a run of so many tokens, no fewer."""
    *_, end = decode(DecodeRequest(name, model, prompt=PROMPT, params=params))
    return end.trace


def exactly(tokens: int) -> dict[str, int]:
    """Return the parameters of a text of so many tokens."""
    return {"max_new_tokens": tokens, "min_new_tokens": tokens}


def files(model: str, tokens: int) -> dict[str, Any]:
    """Measure the file of every strategy, in bytes: gzip at its usual level, and as it is saved."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.json.gz"
        for name in (name for name in STRATEGIES if name != "custom"):
            trace = run(name, model, exactly(tokens))
            json_io.save(trace, path)
            text = json_io.dumps(trace).encode()
            sizes = {"gzip": len(gzip.compress(text, 6)), "saved": path.stat().st_size}
            found[name] = {"steps": len(trace.steps), **sizes}
    return found


def steps(name: str, tokens: int) -> list[dict[str, float]]:
    """Measure a step without its forward passes, in milliseconds of the run's thread, by the hundred.

    The model is a small one whose context is long, with a tokenizer whose decoder drops leading spaces.
    """
    tokenizer = make_sentencepiece()
    ends = {"eos_token_id": None, "bos_token_id": None, "pad_token_id": 0}
    size = {"vocab_size": len(tokenizer), "max_position_embeddings": tokens + 100}
    model = tiny_llama(1, seed=0, **size, **ends)
    forward, clock = type(model).forward, {"passes": 0.0}
    marks: list[tuple[int, float, float]] = []

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        began = time.thread_time()
        result = forward(self, *args, **kwargs)
        now = time.thread_time()
        clock["passes"] += now - began
        marks.append((len(marks), now, clock["passes"]))
        return result

    type(model).forward = counted
    try:
        params = {**exactly(tokens), **PICTURES.get(name, {})}
        request = DecodeRequest(
            name, LoadedModel(model, tokenizer, "long"), prompt="the", params=params
        )
        timed(lambda: sum(isinstance(event, StepRecorded) for event in decode(request)))
    finally:
        type(model).forward = forward
    hundreds = zip(marks[::100], marks[100::100], strict=False)
    return [
        {
            "passes": after[0],
            "own_ms": round(10 * (after[1] - before[1] - after[2] + before[2]), 3),
            "forward_ms": round(10 * (after[2] - before[2]), 3),
        }
        for before, after in hundreds
    ]


def drawn(browser: Browser, url: str, name: str, tokens: int, folder: Path) -> dict[str, Any]:
    """Measure the page while a run is drawn."""
    page = browser.new_page(viewport={"width": 1440, "height": 1000})
    page.set_default_timeout(WAIT_MS)
    params = json.dumps({**exactly(tokens), **PICTURES[name]})
    page.goto(url + "/?" + urlencode({"strategy": name, "prompt": PROMPT, "params": params}))
    page.wait_for_function("window.playground?.page?.connected()")
    traced = folder / f"{name}.json"
    browser.start_tracing(page=page, path=traced, categories=["toplevel"])
    began = time.perf_counter()
    page.evaluate(WATCH, name)
    page.wait_for_function(ENDED, arg=name, polling=200)
    took_ms = 1000 * (time.perf_counter() - began)
    browser.stop_tracing()
    still, nodes, done = page.evaluate(
        "key => [window.still, window.counted, playground.page.shown(key).steps.length]", name
    )
    page.close()
    tasks = main_thread(json.loads(traced.read_text())["traceEvents"])
    return {
        "steps": done,
        "took_s": round(took_ms / 1000, 1),
        "long_by_the_clock": round(still / took_ms, 3),
        "long_by_the_processor": round(sum(t for t in tasks if t > LONG_MS) / took_ms, 3),
        "processor_s": round(sum(tasks) / 1000, 2),
        "worst_task_ms": round(max(tasks), 1),
        "nodes": nodes,
    }


def main_thread(events: list[dict[str, Any]]) -> list[float]:
    """Return the milliseconds of processor time of every task of a page's main thread."""
    named = [event for event in events if event.get("name") == "thread_name"]
    own = {(e["pid"], e["tid"]) for e in named if e["args"]["name"] == "CrRendererMain"}
    tasks = (event for event in events if event.get("name") == "ThreadControllerImpl::RunTask")
    return [e.get("tdur", 0) / 1000 for e in tasks if (e["pid"], e["tid"]) in own]


def main() -> None:
    """Print a card for people and one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="storyteller", help="whose files are measured")
    parser.add_argument("--drawn", type=int, default=500, help="tokens of the runs that are drawn")
    parser.add_argument("--long", type=int, default=2000, help="tokens of the runs without a page")
    parser.add_argument("--parts", default="files steps page", help="which of these to measure")
    asked = parser.parse_args()
    results: dict[str, Any] = {}
    if "files" in asked.parts:
        results["files"] = files(asked.model, 200)
        for name, size in results["files"].items():
            print(f"  {name}: {size['gzip'] / 1e6:.3f} MB gzip, saved {size['saved'] / 1e6:.3f} MB")
    if "steps" in asked.parts:
        results["steps"] = {name: steps(name, asked.long) for name in PICTURES}
        for name, hundreds in results["steps"].items():
            early, late = hundreds[1], hundreds[-1]
            print(
                f"  {name}: {early['own_ms']} ms a step of its own at {early['passes']}, {late['own_ms']} "
                f"at {late['passes']}; forward {early['forward_ms']} and {late['forward_ms']} ms"
            )
    if "page" in asked.parts:
        with (
            tempfile.TemporaryDirectory() as folder,
            playground(Path(folder) / "log.txt") as url,
            sync_playwright() as playwright,
        ):
            browser = playwright.chromium.launch(**launch_options())
            made = {n: drawn(browser, url, n, asked.drawn, Path(folder)) for n in PICTURES}
            browser.close()
        results["page"] = made
        for name, r in made.items():
            print(
                f"  {name}, {r['steps']} steps drawn in {r['took_s']} s: long tasks {r['long_by_the_processor']:.1%} "
                f"of it by the processor, {r['long_by_the_clock']:.1%} by the clock; nodes {r['nodes']}"
            )
    print(json.dumps({"benchmark": "length", "results": results}))


if __name__ == "__main__":
    main()
