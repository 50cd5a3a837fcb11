"""Pages that a browser test opens, and what went wrong on them."""

from __future__ import annotations

from urllib.parse import urlparse

from tests.helpers.patience import PATIENCE_MS

# Every run the page knows, what its stages say, and what Gradio has put up as a notice.
_STATE = """() => JSON.stringify({
  runs: [...(window.playground?.page?.runs.values() ?? [])].map(
    (r) => [r.id, r.strategy, r.status, r.steps.length, r.next, r.error]
  ),
  says: [...document.querySelectorAll(".dp-status, .toast-body")].map((n) => n.textContent).filter(Boolean),
  focus: document.activeElement?.outerHTML.slice(0, 200),
}, null, 1)"""

LEFT = ("AbortError", "Connection errored out")
"""What Gradio reports of a page that is left while the answers to a run still have their connection."""
BROKEN = (*LEFT, "TypeError: network error", "net::ERR_")
"""The same of a page whose connection is cut, or whose server has ended."""
_READY = "window.playground?.page?.connected() && playground.page.stages.length > 0"


class Pages:
    """Pages that are watched: what they print as an error, ask elsewhere or fail to get is kept.

    Args:
        browser: Playwright's.
        server: its address.
        expected: parts of what a test makes happen and Gradio prints as an error.
    """

    def __init__(self, browser, server, expected=()):
        self.browser, self.server, self.pages, self.problems = browser, server, [], []
        self.expected = tuple(expected)

    def open(self, path="/", width=1440, height=1000, beside=None, ready=_READY):
        """Open an address and wait until the page answers: what is typed earlier can be lost.

        Args:
            path: behind the server's address.
            width: of the page, in pixels.
            height: the same.
            beside: another page, of the same visitor's browser.
            ready: what is true of a page that answers; None where its policy lets no text be a script,
                as waiting for an expression needs.
        """
        size = {"width": width, "height": height}
        visitor = beside.context if beside else self.browser.new_context(viewport=size)
        page = visitor.new_page()
        page.set_default_timeout(PATIENCE_MS)
        self._watch(page)
        self.pages.append(page)
        page.goto(self.server + path)
        if ready is not None:
            page.wait_for_function(ready)
        return page

    def describe(self):
        """Return what the pages show, for the report of a test that failed."""
        shown = [page for page in self.pages if not page.is_closed()]
        return "\n".join(f"{page.url}\n{page.evaluate(_STATE)}" for page in shown)

    def close(self):
        self.pages = [page for page in self.pages if not page.is_closed()]
        for page in self.pages:
            page.title()  # whatever it has reported until now is here before the answer
        problems = [p for p in self.problems if not any(part in p for part in self.expected)]
        # What a page asks for at the moment it is closed is broken off, and that is no fault of its own.
        for page in self.pages:
            page.context.close()
        assert not problems, problems

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
        page.on("pageerror", lambda error: self.problems.append(f"page error {error.stack}"))
        page.on("console", lambda m: self.problems.append(m.text) if m.type == "error" else None)
