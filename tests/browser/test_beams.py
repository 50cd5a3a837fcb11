"""The beam tree in the browser: it grows, is walked, folded, rescored, exported, on a telephone."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import expect

from engine.statistics.rescoring import rescore_hypotheses
from tests.helpers import pages
from tests.helpers.pages import (
    feed,
    finish,
    fits,
    minus,
    run_of,
    select,
    shot,
    trace_of,
    until,
    view,
    words,
)

# The nodes that each look finds new in the tree, and all that there are.
GROWTH = """(() => {
  const tree = document.querySelector("#beam_search-stage .bt-boxes"), fresh = new Set();
  const nodesOf = (part) => [part, ...part.querySelectorAll(".bt-node")];
  new MutationObserver((records) => {
    const added = records.flatMap((record) => [...record.addedNodes]);
    for (const part of added.filter((node) => node instanceof Element))
      nodesOf(part).filter((n) => n.matches(".bt-node")).forEach((n) => fresh.add(n));
  }).observe(tree, { childList: true, subtree: true });
  return () => {
    const found = [fresh.size, tree.querySelectorAll(".bt-node").length];
    fresh.clear();
    return found;
  };
})()"""


def link(strategy, prompt="One day, a little boy found a", suffix="", **params):
    values = {"max_new_tokens": 20, "num_beams": 4, **params}
    return pages.link(strategy, prompt, suffix, **values)


def searched(open_page, strategy="beam_search", suffix="", size=None, **params):
    page = open_page(link(strategy, suffix=suffix, **params), **(size or {}))
    finish(page, strategy)
    visual = page.locator(f"#{strategy}-stage .dp-v-beam_tree")
    return page, visual, run_of(page, strategy, "steps")


def open_tools(visual, *, dropped):
    """Open the tools of a tree, and show or hide what was dropped; a page may have done so before."""
    tools = visual.locator(".bt-details")
    if tools.get_attribute("open") is None:
        tools.locator("summary", has_text="Tree tools").click()
    button = visual.get_by_role("button", name="Show or hide the dropped")
    if button.get_attribute("aria-pressed") != str(dropped).lower():
        button.click()


def boxes(page, strategy="beam_search"):
    """Return (x, y) of every visible node of the tree."""
    return page.evaluate(
        "s => [...document.querySelectorAll('#' + s + '-stage .bt-node:not(.away)')]"
        ".map(n => n.getAttribute('transform').match(/[\\d.]+/g).map(Number))",
        strategy,
    )


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("strategy", "params"),
    [("beam_search", {}), ("diverse_beam_search", {"num_beams": 6, "num_beam_groups": 3})],
)
def test_every_candidate_is_drawn_once_and_nothing_overlaps(same_page, strategy, params):
    page, visual, steps = searched(same_page, strategy, **params)
    total = sum(len(step["detail"]["pool"]) for step in steps)
    expect(visual.locator(".bt-node")).to_have_count(total)
    expect(visual.locator(".bt-line")).to_have_count(total)
    canvas, scroll = visual.locator(".bt-svg"), visual.locator(".bt-scroll")
    assert canvas.bounding_box()["width"] <= scroll.bounding_box()["width"], "the whole tree first"
    shot(visual, f"tree_{strategy}")
    open_tools(visual, dropped=True)
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
    shot(visual, f"tree_{strategy}_dropped")


@pytest.mark.nightly
def test_kept_texts_that_died_out_are_distinguished_from_the_living(same_page):
    _, visual, steps = searched(same_page)
    nodes = [n for step in steps for n in step["detail"]["pool"]]
    parents = {n["node_id"]: n["parent_id"] for n in nodes}
    alive = set()
    last = {n["node_id"] for n in steps[-1]["detail"]["pool"]}
    for node in nodes:
        if node["fate"] == "finished" or (node["fate"] == "kept" and node["node_id"] in last):
            at = node["node_id"]
            while at != -1:
                alive.add(at)
                at = parents[at]
    dead = [n["node_id"] for n in nodes if n["fate"] == "kept" and n["node_id"] not in alive]
    drawn = visual.evaluate(
        "v => [...v.querySelectorAll('.bt-node.dead')].map((n) => n.dpNode.data.node_id)"
    )
    assert sorted(drawn) == sorted(dead)
    assert dead


@pytest.mark.nightly
def test_it_grows_step_by_step_and_draws_no_node_twice(open_page):
    page, _, steps = searched(open_page, max_new_tokens=24, num_beams=8)
    assert run_of(page, "beam_search", "next") >= 4, "a start, the tree in pieces, an end"
    sizes = [len(step["detail"]["pool"]) for step in steps]
    # The first look finds what the stage drew anew when the run began once more.
    grown = feed(page, "beam_search", GROWTH)
    assert grown == [list(pair) for pair in zip(sizes, itertools.accumulate(sizes), strict=True)]
    assert grown[-1][1] > 8 * 24


def test_clicking_and_keys(same_page):
    page, visual, steps = searched(same_page)
    pool = steps[4]["detail"]["pool"]
    open_tools(visual, dropped=True)
    visual.get_by_role("button", name="Fit the whole tree").click()
    for _ in range(5):
        visual.get_by_role("button", name="Zoom in").click()
    select(page, "beam_search", 4)
    node = visual.locator(".bt-node[aria-label*=', step 5, dropped']").first
    node.hover()
    tip = visual.get_by_role("tooltip")
    expect(tip).to_contain_text("step 5: dropped. It missed the cut by")
    expect(tip).to_contain_text("÷ 5^1 =")
    node.click()
    facts, table = visual.locator(".bt-facts"), visual.locator(".bt-pool-box")
    expect(facts).to_contain_text("step 5: dropped. It missed the cut by")
    expect(page.locator("#beam_search-stage .dp-scrub output")).to_have_text("Word 5 of 20")
    expect(table.locator("tbody tr")).to_have_count(len(pool))
    chosen = node.evaluate("n => n.dpNode.data.node_id")
    names = {n["node_id"]: n for step in steps for n in step["detail"]["pool"]}
    path, at = [], chosen
    while at != -1:
        path.insert(0, names[at]["token_id"])
        at = names[at]["parent_id"]
    assert facts.locator("q").inner_text() == words(page, "beam_search", path).strip()
    node.press("ArrowLeft")
    expect(facts).to_contain_text("step 4: kept")
    expect(tip).to_contain_text("step 4: kept")
    page.keyboard.press("ArrowRight")
    expect(facts).to_contain_text("step 5")
    page.keyboard.press("End")
    expect(facts).to_contain_text("step 20")
    table.locator(".bt-link").nth(1).click()
    expect(facts).to_contain_text("rank 2 of")
    # The stopping test of the selected step, with its two numbers.
    expect(visual.locator(".bt-state")).to_contain_text("Finished texts after step 20")
    expect(visual.locator(".bt-test")).to_contain_text(steps[-1]["detail"]["stop_reason"])
    expect(visual.locator(".bt-state li")).to_have_count(len(steps[-1]["detail"]["heap"]))


def test_folding_all_or_one_branch_zoom_and_pan(same_page):
    page, visual, steps = searched(same_page)
    total = sum(len(step["detail"]["pool"]) for step in steps)
    canvas, scroll = visual.locator(".bt-svg"), visual.locator(".bt-scroll")
    open_tools(visual, dropped=False)
    before = canvas.bounding_box()
    kept = [n for s in steps for n in s["detail"]["pool"] if n["fate"] in ("kept", "finished")]
    assert len(boxes(page)) == len(kept)
    badge = visual.locator(".bt-node.best .bt-badge").last
    hidden = int(badge.text_content()[1:])
    select(page, "beam_search", 17)
    badge.evaluate("b => b.dispatchEvent(new MouseEvent('click', { bubbles: true }))")
    assert len(boxes(page)) == len(kept) + hidden
    assert badge.text_content() == f"−{hidden}"
    open_tools(visual, dropped=True)
    assert len(boxes(page)) == total
    visual.get_by_role("button", name="Zoom in").click()
    assert canvas.bounding_box()["width"] > before["width"]
    visual.get_by_role("button", name="Fit the whole tree").click()
    assert canvas.bounding_box()["width"] <= scroll.bounding_box()["width"]
    visual.get_by_role("button", name="Zoom in").click()
    visual.get_by_role("button", name="Keep the latest step in view").click()
    until(scroll, "n => n.scrollLeft > 60 && n.scrollWidth - n.clientWidth - n.scrollLeft <= 1")
    left = scroll.evaluate("n => n.scrollLeft")
    scroll.scroll_into_view_if_needed()
    box = scroll.bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 360, box["y"] + box["height"] / 2)
    page.mouse.up()
    until(scroll, "(n, left) => n.scrollLeft < left", left)
    expect(visual.get_by_role("button", name="Keep the latest step")).to_have_attribute(
        "aria-pressed", "false"
    )


@pytest.mark.nightly
def test_greedy_search_runs_next_to_the_beams(open_page):
    page, visual, steps = searched(open_page, max_new_tokens=23, num_beams=5)
    open_tools(visual, dropped=False)
    path = steps[-1]["detail"]["greedy"]
    beside = visual.locator(".bt-greedy")
    expect(beside.locator(".g .sum")).to_contain_text(minus(path["sum_logprobs"]))
    expect(beside).to_contain_text(f"leaves the greedy path at token {path['left_at'] + 1}")
    said = words(page, "beam_search", path["token_ids"])
    assert beside.locator(".g .bt-words").inner_text().strip() == said.strip()
    marked = visual.evaluate(
        "v => [...v.querySelectorAll('.bt-node.greedy')].map((n) => n.dpNode.data.token_id)"
    )
    assert marked == path["token_ids"][: len(marked)]
    assert len(marked) >= path["left_at"]


@pytest.mark.nightly
def test_diverse_groups_have_bands_and_show_what_a_token_cost(same_page):
    _, visual, steps = searched(same_page, "diverse_beam_search", num_beams=6, num_beam_groups=3)
    expect(visual.locator(".bt-labels text")).to_have_text(["Group 1", "Group 2", "Group 3"])
    charged = [n for s in steps for n in s["detail"]["pool"] if n["diversity_penalty"] > 0]
    expect(visual.locator(".bt-charge")).to_have_count(len(charged))
    assert charged


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("strategy", "params"),
    [
        ("beam_search", {"max_new_tokens": 48, "early_stopping": "never"}),
        ("diverse_beam_search", {"num_beams": 6, "num_beam_groups": 3}),
    ],
)
def test_rescoring_says_what_the_engine_says(open_page, strategy, params):
    prompt = "The old king was sad because"
    page, _, _ = searched(open_page, strategy, prompt=prompt, **params)
    trace = trace_of(page, strategy)
    panel = view(page.locator(f"#{strategy}-stage"), "beam_rescore")
    for penalty in (-2.0, -1.0, 0.0, 1.0, 2.5, 5.0):
        expected = rescore_hypotheses(trace, penalty)
        panel.locator("input[type=range]").fill(str(penalty))
        note = panel.locator(".dp-note").first
        expect(note).to_have_attribute("data-first", str(expected.ranking[0].node_id))
        end = "null" if expected.ends_at is None else str(expected.ends_at)
        expect(note).to_have_attribute("data-end", end)
        if expected.rerun:
            expect(note).to_contain_text(expected.rerun)
        best, shown = expected.ranking[0], f"{penalty:.1f}".replace("-", "−")
        first = panel.locator("li .sum").first
        expect(first).to_contain_text(f"{minus(best.sum_logprobs)} ÷ {best.length}^{shown} = ")
        lost = abs(best.score) < 0.1
        # A number that two decimals would make a zero has as many as it needs.
        small = re.compile(r"= −?(0\.0+[1-9]|[\d.]+ · 10⁻)")
        expect(first).to_contain_text(small if lost else f"= {minus(best.score)}")
    shot(panel, f"rescoring_{strategy}")


@pytest.mark.nightly
def test_exports_are_complete_pictures(same_page):
    page, visual, steps = searched(same_page)
    open_tools(visual, dropped=True)
    with page.expect_download() as download:
        visual.get_by_role("button", name="Download as SVG").click()
    text = Path(download.value.path()).read_text()
    total = sum(len(s["detail"]["pool"]) for s in steps)
    root = ElementTree.fromstring(text)
    nodes = [n for n in root.iter() if (n.get("class") or "").startswith("bt-node")]
    assert len(nodes) == total
    assert not [n for n in root.iter() if {"far", "away"} & set((n.get("class") or "").split())]
    assert "var(--" not in text
    assert "length_penalty 1" in text
    with page.expect_download() as download:
        visual.get_by_role("button", name="Download as PNG").click()
    data = Path(download.value.path()).read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = (int.from_bytes(data[at : at + 4]) for at in (16, 20))
    assert width / height == pytest.approx(
        float(root.get("width")) / float(root.get("height")), rel=0.01
    )
    assert width > 1000


@pytest.mark.nightly
def test_on_a_telephone_and_in_the_dark(open_page):
    page, visual, steps = searched(open_page, size={"width": 390, "height": 900})
    assert fits(page)
    expect(visual.locator(".bt-node.pruned").first).to_be_hidden()
    shot(visual, "tree_phone")
    open_tools(visual, dropped=False)
    visual.locator("summary", has_text="Table of every candidate").click()
    rows = visual.locator(".bt-more tbody tr")
    expect(rows).to_have_count(sum(len(s["detail"]["pool"]) for s in steps))
    assert fits(page)
    _, dark, _ = searched(open_page, suffix="&__theme=dark")
    shot(dark, "tree_dark")
