"""What axe-core finds on a page that stands in somebody's way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

_AXE = Axe()
COLOUR_RULES = ("color-contrast", "link-in-text-block")
"""All rules that ask about colours, of those that axe runs by default."""
_RUN = "([within, options]) => axe.run(within ?? document, options)"


def answer_of(
    page: Page, within: Sequence[str] | None = None, rules: Sequence[str] | None = None
) -> dict[str, Any]:
    """Return what axe answers about a page, with what moves on it already settled.

    Args:
        page: the page.
        within: selectors; None is the whole page.
        rules: the only ones to ask about; None is all that axe runs by default.
    """
    # Half a megabyte, which a page has to read once.
    if page.evaluate("typeof axe === 'undefined'"):
        page.evaluate(_AXE.axe_script)
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if rules is not None:
        options["runOnly"] = {"type": "rule", "values": list(rules)}
    context = None if within is None else [[selector] for selector in within]
    return page.evaluate(_RUN, [context, options])


def grave_in(answer: dict[str, Any]) -> list[str]:
    """Return what axe calls serious or critical in an answer, a line for each element."""
    return [
        f"{found['id']}: {node['html'][:120]} {node['failureSummary']}"
        for found in answer["violations"]
        if found["impact"] in ("serious", "critical")
        for node in found["nodes"]
    ]


def grave(page: Page, within: str | None = None) -> list[str]:
    """Return what axe calls serious or critical on a page, or within a selector."""
    return grave_in(answer_of(page, None if within is None else [within]))
