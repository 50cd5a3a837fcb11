"""docs/planted.md: every defect, where it was planted and which test caught it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tests.planted.defect import ROOT, Defect

PAGE = ROOT / "docs" / "planted.md"
_HEAD = """# Planted defects

A guard that nobody tests is soon gone. `python -m tests.planted` copies the project, plants one defect at a time and
runs the tests that have to find it, which pass without it. `make nightly` does so, `--write` writes this page, and
the list is in `tests/planted/`. Of {all} defects {caught} are caught.

| Defect | What is wrong then | Where | Caught by | On |
|---|---|---|---|---|
"""
_ROW = re.compile(r"^\| `([\w-]+)` \|.*\| `[^`]+` \| `([^`]+)` \| ([\d-]+) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Caught:
    """That a defect was caught.

    Attributes:
        test: that failed, in full.
        day: of the run, as in 2026-11-22.
    """

    test: str
    day: str


def page_of(defects: Iterable[Defect], caught: dict[str, Caught]) -> str:
    """Return the page.

    Args:
        defects: all there are.
        caught: by name, of those that were.
    """
    defects = list(defects)
    rows = [_row(defect, caught[defect.name]) for defect in defects if defect.name in caught]
    return _HEAD.format(all=len(defects), caught=len(rows)) + "".join(rows)


def caught_on(page: str) -> dict[str, Caught]:
    """Return what a page says of every defect that it names."""
    return {found[1]: Caught(found[2], found[3]) for found in _ROW.finditer(page)}


def _row(defect: Defect, caught: Caught) -> str:
    says = defect.says.replace("|", "\\|")
    return f"| `{defect.name}` | {says} | `{defect.file}` | `{caught.test}` | {caught.day} |\n"
