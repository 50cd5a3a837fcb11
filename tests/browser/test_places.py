"""The four places of the page: each shows its own tabs, and an address opens in its place."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from engine import STRATEGIES
from tests.helpers.pages import PLACES, open_tab, shot, show

TITLES = {
    "learn": [],
    # One of each group: there is one strategy in the group of the tab that is open.
    "explore": list({s.group: s.tab for s in reversed(STRATEGIES.values())}.values()),
    "compare": [title for title, place in PLACES.items() if place == "compare"],
    "library": [title for title, place in PLACES.items() if place == "library"],
}


def tabs(page):
    """Return the tabs in the row below the header."""
    return page.locator("#strategies > .tab-wrapper [role=tab]:visible")


@pytest.mark.nightly
@pytest.mark.parametrize("size", [{}, {"width": 390, "height": 844}], ids=["wide", "phone"])
def test_each_place_shows_its_tabs(open_page, size):
    page = open_page("/", **size)
    places = page.locator(".dp-places a")
    expect(places).to_have_text(["Learn", "Explore", "Compare", "Library"])
    expect(page.locator(".dp-places [aria-current=page]")).to_have_text("Explore")
    for link in places.all():
        link.press("Enter")
        expect(link).to_have_attribute("aria-current", "page")
        expect(page.locator(".dp-places [aria-current]")).to_have_count(1)
        place = link.get_attribute("data-place")
        expect(tabs(page)).to_have_count(len(TITLES[place]))
        assert sorted(tabs(page).all_inner_texts()) == sorted(TITLES[place])
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place
    shot(page, "library")
    # Back in a place, the tab that was open there is open again.
    open_tab(page, "Taste")
    page.get_by_role("link", name="Explore", exact=True).click()
    page.get_by_role("link", name="Compare", exact=True).click()
    expect(page.get_by_role("tab", name="Taste", exact=True)).to_have_attribute(
        "aria-selected", "true"
    )


def test_strategies_are_in_groups_and_arrow_keys_go_from_one_to_the_next(open_page):
    page = open_page("/?tab=greedy")
    row = page.locator("#strategies > .tab-wrapper > [role=tablist]")
    beams = [s.tab for s in STRATEGIES.values() if s.group == "beams"]
    assert row.locator("[role=tab]").count() >= len(STRATEGIES)
    page.locator("#tab-greedy-button").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#tab-beam_search-button")).to_be_focused()
    expect(page.locator("#beam_search-run")).to_be_visible()
    expect(row.locator("[data-second]:visible")).to_have_text(beams)
    first, second = (
        page.locator(f"#tab-{name}-button").bounding_box() for name in ("greedy", "beam_search")
    )
    assert second["y"] > first["y"] + first["height"] / 2
    page.keyboard.press("End")
    shot(page, "groups")
    # A group that is left shows the strategy that was open there last.
    show(page, "beam_sampling")
    show(page, "greedy")
    expect(tabs(page).filter(has_text="Beam")).to_have_text("Beam sampling")


def test_a_first_visitor_sees_a_recorded_run_with_a_dial(open_page):
    page = open_page("/")
    page.goto(page.url.partition("?")[0])
    expect(page.locator("#sampling-stage .dp-tok[data-step].sel")).to_have_text("look")
    expect(page.locator("#sampling-temperature input[type=range]")).to_be_in_viewport()


def test_an_address_opens_in_its_place(open_page):
    page = open_page("/?tab=draws")
    expect(page.locator(".dp-places [aria-current]")).to_have_text("Compare")
    expect(page.get_by_role("tab", name="Draws", exact=True)).to_have_attribute(
        "aria-selected", "true"
    )
