"""What axe-core finds on a page that stands in somebody's way."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

_AXE = Axe()


def answer_of(page: Page, within: str | None = None) -> dict[str, Any]:
    """Return what axe answers about a page, with what moves on it already settled.

    Args:
        page: the page.
        within: a selector; None is the whole page.
    """
    return _AXE.run(page, context=within, options={"resultTypes": ["violations"]}).response


def grave_in(answer: dict[str, Any]) -> list[str]:
    """Return what axe calls serious or critical in an answer, a line for each element."""
    return [
        f"{found['id']}: {node['html'][:120]} {node['failureSummary']}"
        for found in answer["violations"]
        if found["impact"] in ("serious", "critical")
        for node in found["nodes"]
    ]


def grave(page: Page, within: str | None = None) -> list[str]:
    """Return what axe calls serious or critical on a page; as ``answer_of`` asks it."""
    return grave_in(answer_of(page, within))
