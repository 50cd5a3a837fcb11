"""Pages that a browser test opens, and what went wrong on them."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlparse, urlsplit
from weakref import WeakKeyDictionary

from playwright.sync_api import Browser, Page

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


_EMPTY: WeakKeyDictionary[Browser, list[Page]] = WeakKeyDictionary()
# Most tests have one page, and each page is a process.
_MOST_EMPTY = 2


def borrow_page(browser: Browser, width: int, height: int) -> Page:
    """Return the only page of a new visitor.

    It is one that ``return_page`` has emptied, if there is one: its process has compiled the scripts
    already, so it opens in a third of the CPU time.
    """
    size: Any = {"width": width, "height": height}
    empty = _EMPTY.get(browser)
    if not empty:
        # Fading in took a tenth of the tests' CPU time, and axe finds too little contrast in what is
        # half transparent.
        context = browser.new_context(viewport=size, reduced_motion="reduce")
        # Most tests fill in settings, which a strategy's tab shows where they were open before.
        context.add_init_script("try { localStorage.setItem('settings-open', '1') } catch {}")
        return context.new_page()
    page = empty.pop()
    page.set_viewport_size(size)
    return page


def return_page(browser: Browser, page: Page, server: str) -> None:
    """Forget all that a visitor's page has of a server, except what HTTP lets a browser cache.

    A page that is elsewhere, has another page next to it, or is one too many, is closed instead, with
    its context.
    """
    context, empty = page.context, _EMPTY.setdefault(browser, [])
    alone = context.pages == [page] and page.url.startswith(f"{server}/")
    if not alone or len(empty) >= _MOST_EMPTY:
        context.close()
        return
    page.unroute_all()
    # A pointer stays where it was, and what is drawn below it next would be hovered.
    page.mouse.move(0, 0)
    page.goto("about:blank")
    devtools = context.new_cdp_session(page)
    # Of local and session storage, cookies and databases, also what the page stored as it was left.
    devtools.send("Storage.clearDataForOrigin", {"origin": server, "storageTypes": "all"})
    devtools.detach()
    context.clear_permissions()
    page.emulate_media(media="null", color_scheme="light", reduced_motion="reduce")
    empty.append(page)


def _with_tab(path: str) -> str:
    """Name the tab in which most tests begin, unless a path says what it opens."""
    asked = urlsplit(path)
    if asked.path != "/" or not parse_qs(asked.query).keys() <= {"__theme", "lang"}:
        return path
    return f"/?{asked.query}{'&' if asked.query else ''}tab=greedy"


class Pages:
    """Pages that are watched: what they print as an error, ask elsewhere or fail to get is kept.

    Args:
        browser: Playwright's.
        server: its address.
        expected: parts of what a test makes happen and Gradio prints as an error.
    """

    def __init__(self, browser, server, expected=()):
        self.browser, self.server, self.pages, self.problems = browser, server, [], []
        self.watched = []
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
        page = beside.context.new_page() if beside else borrow_page(self.browser, width, height)
        page.set_default_timeout(PATIENCE_MS)
        self._watch(page)
        self.pages.append(page)
        page.goto(self.server + _with_tab(path))
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
        for page, listeners in self.watched:
            for event, listener in listeners.items():
                page.remove_listener(event, listener)
        for page in self.pages:
            if not page.is_closed():  # with another page of its context
                return_page(self.browser, page, self.server)
        assert not problems, problems

    def _watch(self, page):
        def failed(response):
            if response.status >= 400:
                self.problems.append(f"{response.status} {response.url}")

        def asked(request):
            url = urlparse(request.url)
            if url.scheme.startswith("http") and url.hostname != "127.0.0.1":
                self.problems.append(f"request to {request.url}")

        def thrown(error):
            self.problems.append(f"page error {error.stack}")

        def printed(message):
            if message.type == "error":
                self.problems.append(message.text)

        listeners = {
            "response": failed,
            "request": asked,
            "pageerror": thrown,
            "console": printed,
            "domcontentloaded": self._leave_documents(),
        }
        for event, listener in listeners.items():
            page.on(event, listener)
        self.watched.append((page, listeners))

    def _leave_documents(self):
        """Return a listener that expects what Gradio reports of a document that a test leaves."""
        documents = []

        def loaded(page):
            documents.append(page.url)
            if len(documents) > 1:
                self.expected += LEFT

        return loaded
