"""A server that is started anew shows what its pages had, and goes on with what had not ended."""

from __future__ import annotations

import pytest

from tests.helpers.pages import finish, link, run_id
from tests.helpers.server import free_port, playground
from tests.helpers.visits import BROKEN, Pages

pytestmark = pytest.mark.nightly

ENDING = ("fetch", "503 ", "status of 503", "Server stopped unexpectedly")
"""What a page is told that asks a server between its SIGTERM and its end."""
PROMPT = "Once upon a time, there was"
GREEDY = "window.playground?.page?.shown('greedy')"
STEPS = f"{GREEDY}.steps.map((s) => s.index)"


@pytest.fixture
def starts(tmp_path):
    """Return what serves at one address with one journal, whenever it is called."""
    port, kept = free_port(), str(tmp_path / "journal.db")

    def start():
        return playground(tmp_path / "log.txt", port, journal=kept)

    return start


def _left(page):
    """Return where the page was before it was left; what is open would reload by itself, at any moment."""
    address = page.url
    page.goto("about:blank")
    return address


def test_what_had_ended_is_shown_again(browser, starts):
    with starts() as url:
        pages = Pages(browser, url, BROKEN + ENDING)
        page = pages.open(link("greedy", PROMPT, max_new_tokens=7))
        finish(page, "greedy")
        known = run_id(page, "greedy")
        came = _left(page)
    with starts():
        page.goto(came)
        page.wait_for_function(f"{GREEDY}?.status === 'finished'")
        # A run of its own would have another name.
        assert run_id(page, "greedy") == known
        assert page.evaluate(STEPS) == list(range(7))
        assert page.locator("#greedy-prompt-input").input_value() == PROMPT
        pages.close()


def test_what_had_not_ended_continues_to_its_end(browser, starts):
    with starts() as url:
        pages = Pages(browser, url, BROKEN + ENDING)
        page = pages.open(link("greedy", PROMPT, max_new_tokens=512, min_new_tokens=512))
        page.wait_for_function(f"{GREEDY}?.status === 'running' && {GREEDY}.steps.length > 3")
        known = run_id(page, "greedy")
    came = _left(page)
    with starts():
        page.goto(came)
        page.wait_for_function(f"!['running', undefined].includes({GREEDY}?.status)")
        assert page.evaluate(f"{GREEDY}.status") == "finished"
        assert run_id(page, "greedy") == known
        assert page.evaluate(STEPS) == list(range(512))
        pages.close()
