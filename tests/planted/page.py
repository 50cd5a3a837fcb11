"""docs/planted.md: every defect, where it was planted, which test caught it, and when that test runs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tests.planted.defect import ROOT, Defect

PAGE = ROOT / "docs" / "planted.md"
DAY, NIGHT = "day", "night"
LEAST_BY_DAY = 0.9
"""The share of the defects that `make test` has to catch without the nightly tests."""
_HEAD = """# Planted defects

A guard that nobody tests is soon gone. `python -m tests.planted` copies the project, plants one defect at a time and
runs the tests that have to find it, which pass without it. It uses one copy more than there are cores (`--workers`).
`make nightly` runs it, `--day` leaves out the nightly tests, `--write` writes this page, and the list is in
`tests/planted/`.

Of {all} defects {caught} are caught, {by_day} of them by a test of `make test` (“day”), the others by one that only
`make nightly` runs (“night”).

| Defect | What is wrong then | Where | Caught by | When | On |
|---|---|---|---|---|---|
"""
_ROW = re.compile(
    r"^\| `([\w-]+)` \|.*\| `[^`]+` \| `([^`]+)` \| (day|night) \| ([\d-]+) \|$", re.MULTILINE
)


@dataclass(frozen=True)
class Caught:
    """That a defect was caught.

    Attributes:
        test: the first that failed, in full.
        when: the test runs by DAY, or only at NIGHT.
        date: of the run, as in 2026-11-22.
    """

    test: str
    when: str
    date: str


def page_of(defects: Iterable[Defect], caught: dict[str, Caught]) -> str:
    """Return the page.

    Args:
        defects: all there are.
        caught: by name, of those that were.
    """
    defects = list(defects)
    found = [caught[defect.name] for defect in defects if defect.name in caught]
    by_day = sum(one.when == DAY for one in found)
    rows = [_row(defect, caught[defect.name]) for defect in defects if defect.name in caught]
    return _HEAD.format(all=len(defects), caught=len(found), by_day=by_day) + "".join(rows)


def caught_on(page: str) -> dict[str, Caught]:
    """Return what a page says of every defect that it names."""
    return {found[1]: Caught(found[2], found[3], found[4]) for found in _ROW.finditer(page)}


def _row(defect: Defect, caught: Caught) -> str:
    says = defect.says.replace("|", "\\|")
    found = f"`{caught.test}` | {caught.when} | {caught.date}"
    return f"| `{defect.name}` | {says} | `{defect.file}` | {found} |\n"
