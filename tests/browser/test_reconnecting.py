"""What was begun goes on while its page is away, and the page that comes back misses nothing."""

from __future__ import annotations

import dataclasses
from urllib.parse import urlparse

import pytest
from playwright.sync_api import expect

from engine.models.loading import load
from engine.run.scheduler import RUN_QUEUE
from playground.jobs import registry
from tests.helpers.gates import gate
from tests.helpers.pages import link, tokens
from tests.helpers.patience import comes_true
from tests.helpers.queue import wait_for_all_runs
from tests.helpers.served import SERVED_HERE
from tests.helpers.visits import BROKEN, Pages
from tests.helpers.wire import wire

pytestmark = SERVED_HERE
NEW, FREE = 12, 5
PROMPT = "Once upon a time, there was"
# A page that is just being loaded has no scripts yet.
SHOWN = "window.playground?.page?.shown('greedy')"
STEPS = f"{SHOWN}?.steps.map((s) => s.index)"
DRAWN = f"{SHOWN}?.status === 'running' && {SHOWN}.steps.length >= {FREE}"


@pytest.fixture
def visit(browser, here):
    """Open a page of the server that may lose its connection."""
    pages = Pages(browser, here, BROKEN)
    yield pages.open
    pages.close()


@pytest.fixture
def held():
    """Return a gate at which the next run is held after some steps."""
    with gate(load("storyteller").model, free=FREE) as gated:
        yield gated


def begun(visit):
    """Return a page whose run has come to the gate, and what the run is called."""
    page = visit(link("greedy", PROMPT, max_new_tokens=NEW))
    page.wait_for_function(DRAWN)
    return page, page.evaluate("playground.page.runId('greedy')")


def whole(page, run_id, gated):
    """Check that a page has all of a run that was decoded once."""
    page.wait_for_function(f"{SHOWN}?.status === 'finished'")
    assert page.evaluate("playground.page.runId('greedy')") == run_id
    assert page.evaluate(STEPS) == list(range(NEW))
    assert gated.passes == NEW
    expect(tokens(page, "greedy")).to_have_count(NEW)
    assert page.evaluate("localStorage.getItem('dp-going')") == "[]"


@pytest.mark.nightly
def test_a_page_that_is_loaded_again_continues_with_its_run(visit, held):
    page, run_id = begun(visit)
    page.reload()
    page.wait_for_function(DRAWN)
    assert page.locator("#greedy-prompt-input").input_value() == PROMPT
    held.open()
    whole(page, run_id, held)


@pytest.mark.nightly
def test_the_address_of_a_running_job_shows_it_in_another_tab(visit, held):
    page, run_id = begun(visit)
    other = visit("/?" + urlparse(page.url).query, beside=page)
    other.wait_for_function(DRAWN)
    held.open()
    whole(page, run_id, held)
    whole(other, run_id, held)


def test_a_line_that_is_cut_loses_nothing(browser, here, held):
    with wire(urlparse(here).port) as line:
        pages = Pages(browser, f"http://127.0.0.1:{line.port}", BROKEN)
        page, run_id = begun(pages.open)
        assert line.cut()
        held.open()
        whole(page, run_id, held)
        pages.close()


@pytest.mark.nightly
def test_what_nobody_comes_back_to_ends(visit, held, monkeypatch):
    short = dataclasses.replace(registry.SETTINGS, away_s=0.5)
    monkeypatch.setattr(registry, "SETTINGS", short)
    page, _ = begun(visit)
    page.goto("about:blank")
    comes_true(lambda: any(place.cancelled.is_set() for place in RUN_QUEUE._tickets))
    held.open()
    wait_for_all_runs()
    assert held.passes == FREE + 1
