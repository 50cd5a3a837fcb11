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


@pytest.fixture
def open_page(browser, server):
    pages, problems = [], []

    def watch(page):
        def failed(response):
            if response.status >= 400:
                problems.append(f"{response.status} {response.url}")

        def asked(request):
            url = urlparse(request.url)
            if url.scheme.startswith("http") and url.hostname != "127.0.0.1":
                problems.append(f"request to {request.url}")

        page.on("response", failed)
        page.on("request", asked)
        page.on("pageerror", lambda error: problems.append(f"page error {error}"))
        page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)

    def opener(path="/", width=1440, height=1000):
        page = browser.new_page(viewport={"width": width, "height": height})
        watch(page)
        page.goto(server + path)
        page.wait_for_selector(".dp-stage", state="attached")
        pages.append(page)
        return page

    yield opener
    for page in pages:
        page.close()
    assert not problems
