"""A page of a server that has just begun: what it shows, what it lets one press, and how both come through."""

from __future__ import annotations

import signal

import pytest
from playwright.sync_api import expect

from engine import STRATEGIES
from engine.sources.source import Source
from engine.strategies.compatibility import incompatibility_reason
from tests.helpers.pages import finish, run_id, status, tokens
from tests.helpers.patience import PATIENCE_S
from tests.helpers.server import process
from tests.helpers.visits import Pages

HELD = """
import os, runpy, sys, time
app = runpy.run_path("app.py")
from playground.shell import lazy_imports
bring = lazy_imports.load_all
def held():
    while not os.path.exists({path!r}):
        time.sleep(0.05)
    bring()
lazy_imports.load_all = held
app["main"]()
"""
"""A server whose imports behind the page wait for a file."""


@pytest.fixture
def held(tmp_path):
    """Return the address of such a server, its process and what lets it go on."""
    free = tmp_path / "free"
    with process(tmp_path / "log.txt", ("-c", HELD.format(path=str(free)))) as (url, served):
        yield url, served, free.touch


def test_a_recorded_run_is_drawn_without_the_queue(browser, server):
    page = browser.new_page()
    page.route("**/queue/**", lambda route: route.abort())
    page.goto(server)
    expect(tokens(page, "sampling")).not_to_have_count(0)
    expect(status(page, "sampling")).to_contain_text("A recorded run")
    page.context.close()


@pytest.mark.nightly
def test_scripts_and_the_first_recorded_run_are_asked_for_by_the_page_itself(server, browser):
    asked = []
    page = browser.new_page(java_script_enabled=False)
    page.on("request", lambda request: asked.append(request.url.removeprefix(server)))
    page.goto(server)
    assert any(path.endswith("/index.mjs") for path in asked)
    assert any(path.startswith("/recorded/") for path in asked)
    page.context.close()


@pytest.mark.nightly
def test_run_that_is_pressed_before_the_server_can_compute_comes_through(browser, held):
    url, _, go_on = held
    pages = Pages(browser, url)
    page = pages.open()
    expect(status(page, "greedy")).to_contain_text("A recorded run")
    option = page.locator("#speculative-model option[value=storyfixer]")
    page.locator("#tab-speculative-button").first.dispatch_event("click")
    expect(option).to_be_enabled()
    page.locator("#tab-greedy-button").first.dispatch_event("click")
    before = run_id(page, "greedy")
    page.locator("#greedy-run").click()
    expect(page.locator("#greedy-run")).to_have_attribute("aria-disabled", "true")
    go_on()
    finish(page, "greedy", before)
    assert len(tokens(page, "greedy").all()) > 1
    expect(option).to_be_disabled()
    expect(option).to_have_text(
        incompatibility_reason(STRATEGIES["speculative"], Source.parse("storyfixer"))
    )
    pages.close()


@pytest.mark.nightly
def test_a_server_that_cannot_compute_yet_ends_when_it_is_asked_to(held):
    _, served, _ = held
    served.send_signal(signal.SIGTERM)
    assert served.wait(PATIENCE_S) == 0
