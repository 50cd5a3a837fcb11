"""What axe-core finds on a page that stands in somebody's way."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

_AXE = Axe()
GRAVE = ("serious", "critical")
"""The impacts that no page of ours may have."""


def grave(page: Page, within: str | None = None) -> list[str]:
    """Return what axe calls serious or critical, a line for each element.

    Args:
        page: the page, with what moves on it already settled.
        within: a selector; None is the whole page.
    """
    answer = _AXE.run(page, context=within, options={"resultTypes": ["violations"]}).response
    return [
        f"{found['id']}: {node['html'][:150]}"
        for found in answer["violations"]
        if found["impact"] in GRAVE
        for node in found["nodes"]
    ]
