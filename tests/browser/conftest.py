"""A real server and a real Chromium; console errors and failed requests fail a test."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlparse

import pytest
from playwright.sync_api import sync_playwright

from tests.browser_setup import launch_options

ROOT = Path(__file__).parents[2]
READY_S = 90


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def pytest_collection_modifyitems(items):
    """Try a browser test once more: on a busy machine Chromium itself is now and then too slow."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    port = free_port()
    log = tmp_path_factory.mktemp("server") / "log.txt"
    environ = {**os.environ, "PLAYGROUND_PORT": str(port), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "app.py"],
        cwd=ROOT,
        env=environ,
        stdout=log.open("w"),
        stderr=subprocess.STDOUT,
    )
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + READY_S
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                break
        except OSError:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.3)
    yield url
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(**launch_options())
        yield chromium
        chromium.close()


class Pages:
    """Pages that are watched: what they print as an error, ask elsewhere or fail to get is kept."""

    def __init__(self, browser, server):
        self.browser, self.server, self.pages, self.problems = browser, server, [], []

    def open(self, path="/", width=1440, height=1000):
        page = self.browser.new_page(viewport={"width": width, "height": height})
        self._watch(page)
        page.goto(self.server + path)
        page.wait_for_selector(".dp-stage", state="attached")
        self.pages.append(page)
        return page

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
    yield pages.open
    pages.close()


@pytest.fixture(scope="module")
def kept_pages(browser, server):
    pages = Pages(browser, server)
    yield pages, {}
    pages.close()


@pytest.fixture
def same_page(kept_pages, request):
    """Open a page, or return the one that an earlier test of the module left behind that link.

    For tests that select and look; whoever changes more opens a page of its own.
    """
    pages, known = kept_pages

    def opener(path="/"):
        if path not in known or getattr(request.node, "execution_count", 1) > 1:
            known[path] = pages.open(path)
        return known[path]

    return opener
