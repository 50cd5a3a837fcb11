"""A real server and a real Chromium; console errors and failed requests fail a test."""

from __future__ import annotations

from urllib.parse import urlparse

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.browser_setup import launch_options
from tests.helpers.patience import PATIENCE_MS
from tests.helpers.server import playground

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    with playground(tmp_path_factory.mktemp("server") / "log.txt") as url:
        yield url


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(timeout=PATIENCE_MS, **launch_options())
        yield chromium
        chromium.close()


# Every run the page knows, what its stages say, and what Gradio has put up as a notice.
_STATE = """() => JSON.stringify({
  runs: [...playground.page.runs.values()].map((r) => [r.id, r.strategy, r.status, r.steps.length, r.next, r.error]),
  says: [...document.querySelectorAll(".dp-status, .toast-body")].map((n) => n.textContent).filter(Boolean),
  focus: document.activeElement?.outerHTML.slice(0, 200),
}, null, 1)"""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Add to a failed test what its pages showed at that moment."""
    report = yield
    if report.when == "call" and report.failed:
        for pages in (value for value in item.funcargs.values() if hasattr(value, "pages")):
            report.sections.append(("pages", pages.pages.describe()))
    return report


class Pages:
    """Pages that are watched: what they print as an error, ask elsewhere or fail to get is kept."""

    def __init__(self, browser, server):
        self.browser, self.server, self.pages, self.problems = browser, server, [], []

    def open(self, path="/", width=1440, height=1000):
        """Open an address and wait until the page answers: what is typed earlier can be lost."""
        page = self.browser.new_page(viewport={"width": width, "height": height})
        page.set_default_timeout(PATIENCE_MS)
        self._watch(page)
        self.pages.append(page)
        page.goto(self.server + path)
        page.wait_for_function(
            "window.playground?.page?.connected() && playground.page.stages.length > 0"
        )
        return page

    def describe(self):
        """Return what the pages show, for the report of a test that failed."""
        return "\n".join(f"{page.url}\n{page.evaluate(_STATE)}" for page in self.pages)

    def close(self):
        for page in self.pages:
            page.close()
        assert not self.problems

    def _watch(self, page):
        def failed(response):
            if response.status >= 400:
                self.problems.append(f"{response.status} {response.url}")

        def asked(request):
            url = urlparse(request.url)
            if url.scheme.startswith("http") and url.hostname != "127.0.0.1":
                self.problems.append(f"request to {request.url}")

        page.on("response", failed)
        page.on("request", asked)
        page.on("pageerror", lambda error: self.problems.append(f"page error {error}"))
        page.on("console", lambda m: self.problems.append(m.text) if m.type == "error" else None)


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
