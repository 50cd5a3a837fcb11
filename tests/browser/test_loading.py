"""The page's scripts may come later than its elements, and from below any path."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.helpers.pages import finish, link, open_tab, run_of, shot
from tests.helpers.patience import PATIENCE_MS


def held_back(browser):
    """Return a page that does not get its scripts, and the requests for them."""
    page, held = browser.new_page(), []
    page.set_default_timeout(PATIENCE_MS)
    page.route("**/index.mjs", lambda route: held.append(route))  # noqa: PLW0108
    return page, held


def let_go(page, held):
    for request in held:
        request.continue_()
    page.wait_for_function("playground.page?.connected()")


@pytest.mark.nightly
def test_what_happens_before_the_scripts_are_there_is_not_lost(browser, server):
    page, held = held_back(browser)
    page.goto(server)
    # The page says that there is more to come; nothing on it can be pressed in vain.
    expect(page.locator("#page-sampling")).to_contain_text("Loading")
    expect(page.locator("#sampling-run")).to_have_count(0)
    open_tab(page, "Beams")
    let_go(page, held)
    expect(page.locator("#beam_search-run")).to_be_visible()
    open_tab(page, "Greedy")
    page.locator("#greedy-run").click()
    finish(page, "greedy")
    assert len(run_of(page, "greedy", "steps")) == 60
    page.close()


@pytest.mark.nightly
def test_a_link_that_is_older_than_the_scripts_runs(browser, server):
    page, held = held_back(browser)
    page.goto(server + link("sampling", "Once upon a time", max_new_tokens=5))
    expect(page.locator("#page-sampling")).to_contain_text("Loading")
    let_go(page, held)
    finish(page, "sampling")
    assert len(run_of(page, "sampling", "steps")) == 5
    page.close()


@pytest.mark.nightly
def test_the_scripts_are_fetched_once(open_page):
    page = open_page()
    names = page.evaluate(
        "performance.getEntriesByType('resource').map((r) => new URL(r.name).pathname)"
        ".filter((path) => path.startsWith('/scripts/'))"
    )
    assert [name.rsplit("/", 1)[1] for name in names] == ["index.mjs"]


def test_a_page_that_never_gets_its_scripts_says_so(browser, server):
    page = browser.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.route("**/index.mjs", lambda route: route.abort())
    page.goto(server)
    expect(page.get_by_role("alert")).to_contain_text("could not be loaded")
    shot(page, "no_scripts")
    page.close()
