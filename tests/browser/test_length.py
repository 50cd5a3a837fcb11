"""A page of nearly 300 steps is made of as much as one of 100, its text apart, and a step touches as little of it."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.helpers.long_runs import drawn_on
from tests.helpers.pages import shot, view

pytestmark = pytest.mark.nightly
TOLD = "k => playground.page.shown(k)?.source && playground.page.stages.some((s) => s.strategy === k && s.drawn)"


def opened(open_page, strategy):
    """Return a page that shows the strategy's recorded run."""
    page = open_page(f"/?strategy={strategy}")
    page.wait_for_function(TOLD, arg=strategy)
    return page


@pytest.mark.parametrize("strategy", ["greedy", "sampling", "beam_search", "dola"])
def test_a_long_run_is_drawn_with_as_much_as_a_short_one(open_page, strategy):
    page = opened(open_page, strategy)
    if strategy == "dola":
        view(page.locator("#dola-stage"), "layer_heatmap")
    # Counted at the same place of the recorded steps, as one changes more than another.
    again = page.evaluate("k => playground.page.shown(k).source.trace.steps.length - 1", strategy)
    early, late = drawn_on(page, strategy, [100, 100 + 200 // again * again])
    assert late["others"] <= 1.1 * early["others"]
    # A token is one element, a line break in it one more.
    assert late["tokens"] - early["tokens"] <= 1.2 * (late["steps"] - early["steps"])
    assert late["touched"] <= 1.5 * early["touched"]
    shot(page, f"long_{strategy}")


def test_a_long_tree_can_be_walked_to_its_beginning_and_saved_whole(open_page):
    page = opened(open_page, "beam_search")
    drawn_on(page, "beam_search", [120])
    tree = page.locator("#beam_search-stage .dp-v-beam_tree")
    everything = page.evaluate(
        "playground.page.shown('beam_search').steps.reduce((n, s) => n + s.detail.pool.length, 0)"
    )
    assert tree.locator(".bt-node").count() < everything / 2
    page.evaluate("playground.page.select(playground.page.shown('beam_search'), 0)")
    first = tree.locator(".bt-node[aria-label*=', step 1,']").first
    expect(first).to_be_visible()
    first.click()
    first.press("ArrowRight")
    expect(page.locator("#beam_search-stage .dp-scrub output")).to_have_text("Word 2 of 120")
    tree.locator("summary", has_text="Tree tools").click()
    tree.get_by_role("button", name="Show or hide the dropped").click()
    with page.expect_download() as download:
        tree.get_by_role("button", name="Download as SVG").click()
    text = download.value.path().read_text()
    assert text.count('class="bt-node') == everything
    assert " far" not in text
