"""A real server and a real Chromium; console errors and failed requests fail a test."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.browser_setup import launch_options
from tests.helpers.patience import PATIENCE_MS
from tests.helpers.server import playground
from tests.helpers.visits import Pages

expect.set_options(timeout=PATIENCE_MS)
# A camera and a microphone that show and play a pattern, and no question before a page may have them.
DEVICES = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    with playground(tmp_path_factory.mktemp("server") / "log.txt") as url:
        yield url


@pytest.fixture
def visit(browser, here):
    """Open a page of the server in this process."""
    pages = Pages(browser, here)
    yield pages.open
    pages.close()


@pytest.fixture(scope="session")
def browser():
    options = launch_options()
    flags = {**options, "args": [*options["args"], *DEVICES]}
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(timeout=PATIENCE_MS, **flags)
        yield chromium
        chromium.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Add to a failed test what its pages showed at that moment."""
    report = yield
    if report.when == "call" and report.failed:
        for pages in (value for value in item.funcargs.values() if hasattr(value, "pages")):
            report.sections.append(("pages", pages.pages.describe()))
    return report


@pytest.fixture
def open_page(browser, server):
    """Open a page of the test's own."""
    pages = Pages(browser, server)

    def opener(*args, **kwargs):
        return pages.open(*args, **kwargs)

    opener.pages = pages
    yield opener
    pages.close()


@pytest.fixture(scope="module")
def kept_pages(browser, server):
    pages = Pages(browser, server)
    yield pages, {}
    pages.close()


@pytest.fixture
def same_page(kept_pages):
    """Open a page, or return the one that an earlier test of the module left behind that link.

    For tests that select and look; whoever changes more opens a page of its own.
    """
    pages, known = kept_pages

    def opener(path="/"):
        if path not in known:
            known[path] = pages.open(path)
        return known[path]

    opener.pages = pages
    return opener
