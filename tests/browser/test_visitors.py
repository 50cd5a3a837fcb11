"""A page that tests lend to each other is to every test that of a new visitor."""

from __future__ import annotations

from tests.helpers.visits import borrow_page, return_page

LEAVE = """() => {
  localStorage.setItem("known", "1");
  sessionStorage.setItem("known", "1");
  document.cookie = "known=1; max-age=3600";
  addEventListener("pagehide", () => sessionStorage.setItem("late", "1"));
  addEventListener("beforeunload", (event) => event.preventDefault());
}"""
FOUND = """() => [
  localStorage.length, sessionStorage.length, document.cookie,
  matchMedia("print").matches, matchMedia("(prefers-color-scheme: dark)").matches,
  matchMedia("(prefers-reduced-motion: no-preference)").matches, innerWidth,
]"""


def test_a_page_that_is_returned_knows_nothing_of_its_visitor(browser, server):
    there = f"{server}/theme.css"
    page = borrow_page(browser, 1000, 800)
    page.goto(there)
    new = page.evaluate(FOUND)
    page.route("**/*", lambda route: route.abort())
    page.emulate_media(media="print", color_scheme="dark", reduced_motion="no-preference")
    page.mouse.click(100, 100)
    page.evaluate(LEAVE)
    page.set_viewport_size({"width": 390, "height": 844})
    return_page(browser, page, server)
    again = borrow_page(browser, 1000, 800)
    assert again is page
    again.goto(there)
    assert again.evaluate(FOUND) == new
    return_page(browser, again, server)
