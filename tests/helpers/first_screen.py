"""Measures the first screen of every strategy: ``python -m tests.helpers.first_screen [--url URL] [--write]``.

What is counted is inside the window before anything is scrolled. The header, the row of tabs, the prompt
and the words of the model do not count as words. The text and the candidates' names count as one control
each where arrow keys lead from one to the next.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from benchmarks.about import ROOT, commit, now
from engine import STRATEGIES
from tests.browser_setup import launch_options
from tests.helpers.patience import PATIENCE_MS
from tests.helpers.server import playground

FILE = ROOT / "docs" / "first_screen.md"
SIZES = (1440, 900), (390, 844)
_HEAD = """# The first screen

What a visitor sees of each strategy before scrolling, counted in Chromium. The header, the row of tabs, the prompt and
the words of the model (its text, candidates and guesses) do not count as words. The text is no control, nor is a button
that is off, and the names of the candidates are one, as one press of Tab leads to them all. y is where something
begins, in pixels. Tab presses lead from the top of the page, by its link past the header, to the strategy's first dial.

Before the page was built around one dial, the first screen of Sampling at 1440 × 900 had 597 words, 62 numbers and 84
controls. Temperature was at y = 1,397, the pictures at y = 444 to 689, and 50 presses of Tab led to the temperature.

`python -m tests.helpers.first_screen --write` writes this page. Measured on {date}, commit {commit}.
"""
_COUNT = r"""([strategy, dial]) => {
  // A name for screen readers alone is one pixel large.
  const inside = (box) => box.width > 1 && box.height > 1 && box.top < innerHeight && box.bottom > 0
    && box.left < innerWidth && box.right > 0;
  const seen = (node) => [...node.getClientRects()].some(inside)
    && node.checkVisibility({ visibilityProperty: true });
  const counted = document.querySelector(`#page-${strategy}`);
  const walker = document.createTreeWalker(counted, NodeFilter.SHOW_TEXT);
  const aside = ".dp-strip, .pf-prompt, .fi-text, .cb-row:not(.rest) .cb-name, .sl-strip, .se-word, .pb-word, "
    + "option, .dp-sr, svg, script, style";
  const words = [];
  while (walker.nextNode()) {
    const parent = walker.currentNode.parentElement;
    if (parent.closest(aside)) continue;
    const range = document.createRange();
    range.selectNodeContents(walker.currentNode);
    if ([...range.getClientRects()].some(inside) && seen(parent))
      words.push(...walker.currentNode.data.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)));
  }
  const controls = [...document.querySelectorAll(
    "a[href], button:not(:is(.cb-name, .fi-box)[tabindex='-1']), input, select, textarea, summary, "
    + "[role=tab], [role=button]")]
    .filter((node) => seen(node) && node.ariaDisabled !== "true" && !node.closest(".dp-strip"));
  const top = (node) => (node ? Math.round(node.getBoundingClientRect().top + scrollY) : null);
  return {
    words: words.filter((word) => !/\p{N}/u.test(word)).length,
    numbers: words.filter((word) => /\p{N}/u.test(word)).length,
    controls: controls.length,
    "y of the dial": top(dial && document.getElementById(`${strategy}-${dial}`)),
    "y of the text": top(document.querySelector(`#${strategy}-stage .dp-strip`)),
    "y of the picture": top(document.querySelector(`#${strategy}-stage :is(.dp-picture, .dp-v-candidates)`)),
  };
}"""

_IS_FOCUSED = """(id) => [...document.getElementById(id).querySelectorAll("input[type=range], select")]
  .includes(document.activeElement)"""
_MOST_TABS = 60

MOST = {"words": 60, "controls": 32}
"""The budget of a first screen."""


def count_first_screen(page: Page, name: str) -> dict[str, int | None]:
    """Count the first screen of the strategy that is open and drawn."""
    return page.evaluate(_COUNT, [name, next(iter(STRATEGIES[name].dials), "")])


def measure_strategy(page: Page, url: str, name: str) -> dict[str, int | None]:
    """Open a strategy and count its first screen."""
    page.goto(f"{url}/?tab={name}")
    page.wait_for_function("window.playground?.page?.connected()")
    page.locator(f"#{name}-stage .dp-tok[data-step]").first.wait_for()
    page.wait_for_function("playground.page.stages.every((stage) => !stage.dirty)")
    return {**count_first_screen(page, name), "Tab presses": count_tab_presses(page, name)}


def count_tab_presses(page: Page, name: str) -> int | None:
    """Return how often Tab leads on from the top of the page to the first dial, None without one."""
    for dial in STRATEGIES[name].dials[:1]:
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")  # past the header
        for number in range(2, _MOST_TABS + 1):
            page.keyboard.press("Tab")
            if page.evaluate(_IS_FOCUSED, f"{name}-{dial}"):
                return number
        raise ValueError(f"no press of Tab leads to {dial} of {name}")
    return None


def measure(url: str) -> dict[tuple[int, str], dict[str, int | None]]:
    """Return the counts of every strategy at every size, by width and name."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**launch_options())
        found = {}
        for width, height in SIZES:
            page = browser.new_page(viewport={"width": width, "height": height})
            page.set_default_timeout(PATIENCE_MS)
            for name in STRATEGIES:
                found[width, name] = measure_strategy(page, url, name)
            page.close()
        browser.close()
    return found


def to_tables(found: dict[tuple[int, str], dict[str, int | None]]) -> str:
    """Return the counts as one Markdown table for each width."""
    heads = list(next(iter(found.values())))
    parts = []
    for width, height in SIZES:
        lines = [f"| strategy | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
        for (wide, name), counts in found.items():
            if wide == width:
                values = ("–" if value is None else str(value) for value in counts.values())
                lines.append(f"| {name} | {' | '.join(values)} |")
        parts.append(f"## {width} × {height}\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


@contextmanager
def served(url: str | None) -> Iterator[str]:
    """Yield the address of a running playground, or of one that is started for it."""
    if url:
        yield url
        return
    with tempfile.TemporaryDirectory() as folder, playground(Path(folder) / "log.txt") as own:
        yield own


def main() -> None:
    """Measure, and print the tables or write them to the docs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="of a running playground; without it one is started")
    parser.add_argument("--write", action="store_true", help=f"write {FILE.name}")
    asked = parser.parse_args()
    with served(asked.url) as url:
        tables = to_tables(measure(url))
    if asked.write:
        FILE.write_text(_HEAD.format(date=now()[:10], commit=commit()) + "\n" + tables, "utf-8")
    else:
        sys.stdout.write(tables)


if __name__ == "__main__":
    main()
