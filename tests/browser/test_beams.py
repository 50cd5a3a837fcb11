"""The beam tree in the browser: it grows, is walked, folded, rescored, exported, on a telephone."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from engine import trace_json
from engine.rescoring import rescore
from tests.browser.test_playground import finish, show

SHOTS = os.environ.get("PLAYGROUND_SCREENSHOTS")
RUN = "DP.runs.get(DP.runId('{0}'))"
WATCH = """() => { window.seen = []; window.gap = 0; let last = performance.now();
  const tick = (now) => { window.gap = Math.max(window.gap, now - last); last = now; requestAnimationFrame(tick); };
  requestAnimationFrame(tick);
  new MutationObserver(() => window.seen.push(document.querySelectorAll('#beam_search-stage .bt-node').length))
    .observe(document.querySelector('#beam_search-stage .bt-boxes'), { childList: true }); }"""


def link(strategy, prompt="One day, a little boy found a", **params):
    values = {"max_new_tokens": 20, "num_beams": 4, **params}
    return "/?" + urlencode({"strategy": strategy, "prompt": prompt, "params": json.dumps(values)})


def searched(open_page, strategy="beam_search", suffix="", size=None, **params):
    page = open_page(link(strategy, **params) + suffix, **(size or {}))
    finish(page, strategy)
    visual = page.locator(f"#{strategy}-stage .dp-v-beam_tree")
    return page, visual, page.evaluate(RUN.format(strategy) + ".steps")


def shot(visual, label):
    """Keep a picture for people, never compared."""
    if SHOTS:
        visual.screenshot(path=Path(SHOTS) / f"{label}.png")


def boxes(page, strategy="beam_search"):
    """Return (x, y) of every visible node of the tree."""
    return page.evaluate(
        "s => [...document.querySelectorAll('#' + s + '-stage .bt-node:not(.away)')]"
        ".map(n => n.getAttribute('transform').match(/[\\d.]+/g).map(Number))",
        strategy,
    )


@pytest.mark.parametrize(
    ("strategy", "params"),
    [("beam_search", {}), ("diverse_beam_search", {"num_beams": 6, "num_beam_groups": 3})],
)
def test_every_candidate_is_drawn_once_and_nothing_overlaps(open_page, strategy, params):
    page, visual, steps = searched(open_page, strategy, **params)
    total = sum(len(step["detail"]["pool"]) for step in steps)
    expect(visual.locator(".bt-node")).to_have_count(total)
    expect(visual.locator(".bt-line")).to_have_count(total)
    places = boxes(page, strategy)
    assert len({tuple(place) for place in places}) == total
    columns = sorted({x for x, _ in places})
    assert len(columns) == len(steps)
    for column in columns:
        rows = sorted(y for x, y in places if x == column)
        assert all(b - a >= 30 for a, b in itertools.pairwise(rows))
    # The winner's path spells the output.
    expect(visual.locator(".bt-node.best")).to_have_count(
        len(steps[-1]["emit"]) + steps[-1]["keep"]
    )
    expect(visual.locator(".bt-node.tip")).to_have_count(1)
    expect(visual.locator(".bt-greedy")).to_contain_text("Greedy search beside it")
    shot(visual, f"tree_{strategy}")


def test_it_grows_while_the_search_runs(open_page):
    page = open_page("/")
    show(page, "beam_search", "Beam search")
    for name, value in (("max_new_tokens", "60"), ("num_beams", "8")):
        page.locator(f"#beam_search-{name} input[type=number]").fill(value)
        page.locator(f"#beam_search-{name} input[type=number]").press("Tab")
    page.wait_for_selector("#beam_search-stage .bt-boxes", state="attached")
    page.evaluate(WATCH)
    page.locator("#beam_search-run").click()
    finish(page, "beam_search")
    seen = page.evaluate("window.seen")
    assert len(seen) >= 3, seen
    assert seen == sorted(seen)
    assert seen[-1] > 8 * 60
    gap = page.evaluate("window.gap")
    assert gap < 3000, f"the page stood still for {gap:.0f} ms"


def test_clicking_keys_folding_and_zoom(open_page):
    page, visual, steps = searched(open_page)
    pool = steps[4]["detail"]["pool"]
    visual.get_by_role("button", name="Fit the whole tree").click()
    node = visual.locator(".bt-node[aria-label*=', step 5, dropped']").first
    node.click()
    facts = visual.locator(".bt-facts")
    expect(facts).to_contain_text("step 5: dropped. It missed the cut by")
    expect(page.locator("#beam_search-stage .dp-scrub output")).to_have_text("step 5 of 20")
    facts.locator("summary").click()
    expect(facts.locator("tbody tr")).to_have_count(len(pool))
    node.press("ArrowLeft")
    expect(facts).to_contain_text("step 4: kept")
    page.keyboard.press("ArrowRight")
    expect(facts).to_contain_text("step 5")
    before = visual.locator(".bt-svg").bounding_box()
    visual.get_by_role("button", name="Hide or show the dropped").click()
    expect(visual.locator(".bt-node.pruned").first).to_be_hidden()
    assert visual.locator(".bt-svg").bounding_box()["height"] < before["height"]
    assert len(boxes(page)) < sum(len(step["detail"]["pool"]) for step in steps)
    visual.get_by_role("button", name="Zoom in").click()
    assert visual.locator(".bt-svg").bounding_box()["width"] > before["width"]


def test_rescoring_says_what_the_engine_says(open_page):
    page, _, _ = searched(
        open_page,
        prompt="The old king was sad because",
        max_new_tokens=48,
        early_stopping="never",
    )
    text = page.evaluate("JSON.stringify(DP.trace(" + RUN.format("beam_search") + "))")
    trace = trace_json.loads(text)
    panel = page.locator("#beam_search-stage .dp-v-beam_rescore")
    winners = set()
    for penalty in (-2.0, -1.0, 0.0, 1.0, 2.5, 5.0):
        expected = rescore(trace, penalty)
        panel.locator("input[type=range]").fill(str(penalty))
        note = panel.locator(".dp-note").first
        expect(note).to_have_attribute("data-first", str(expected.ranking[0].node_id))
        end = "null" if expected.ends_at is None else str(expected.ends_at)
        expect(note).to_have_attribute("data-end", end)
        if expected.rerun:
            expect(note).to_contain_text(expected.rerun)
        winners.add(expected.ranking[0].node_id)
        rows = panel.locator("tbody tr")
        expect(rows.first).to_contain_text(f"÷ {expected.ranking[0].length}^{penalty:.1f}")
    assert len(winners) > 1
    shot(panel, "rescoring")


def test_exports_are_complete_pictures(open_page):
    page, visual, steps = searched(open_page, max_new_tokens=8)
    with page.expect_download() as download:
        visual.get_by_role("button", name="Download as SVG").click()
    text = Path(download.value.path()).read_text()
    assert text.count('class="bt-rect"') == sum(len(s["detail"]["pool"]) for s in steps)
    assert "var(--" not in text
    with page.expect_download() as download:
        visual.get_by_role("button", name="Download as PNG").click()
    assert Path(download.value.path()).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_on_a_telephone_and_in_the_dark(open_page):
    page, visual, _ = searched(open_page, size={"width": 390, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    expect(visual.locator(".bt-node.pruned").first).to_be_hidden()
    visual.locator("summary", has_text="Table of every candidate").click()
    expect(visual.locator(".bt-more tbody tr").first).to_be_visible()
    shot(visual, "tree_phone")
    _, dark, _ = searched(open_page, suffix="&__theme=dark")
    shot(dark, "tree_dark")
