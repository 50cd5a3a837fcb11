"""Walks five tasks as a visitor would: ``python -m tests.helpers.five_tasks [--url URL] [--write] [--shots DIR]``.

A walk presses, types and scrolls in Chromium. It counts what a hand does, and what the page makes it wait for.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from benchmarks.about import ROOT, commit, machine, now
from engine.cli.wrap_markdown import wrap_markdown
from tests.browser_setup import launch_options
from tests.helpers.first_screen import served
from tests.helpers.patience import PATIENCE_MS

FILE = ROOT / "docs" / "five_tasks.md"
SIZES = (1440, 900), (390, 844)
# The keystroke-level model (Card, Moran and Newell, 1980): think, point and press; type one character; scroll.
PRESS_S, CHARACTER_S, SCROLL_S = 1.35 + 1.1 + 0.2, 0.28, 1.35 + 1.1
_HEAD = """# Five tasks

What five tasks take on the page, walked in Chromium. A walk opens the page at its plain address and ends where the
visitor sees the result. *Scrolls* counts controls that were outside the window. *By hand* is the time that the
[keystroke-level model](https://doi.org/10.1145/358886.358895) gives for presses, typing and scrolls. *Waiting* is what
the page needed, on {machine}. `python -m tests.helpers.five_tasks --write` writes this page. Measured on {date},
commit {commit}.
"""
_STEADY = "() => playground.page.stages.every((stage) => !stage.root.isConnected || !stage.dirty)"
_IN_WINDOW = """(node) => {
  const box = node.getBoundingClientRect();
  return box.top >= 0 && box.bottom <= innerHeight && box.left >= 0 && box.right <= innerWidth;
}"""


@dataclass
class Walk:
    """A visitor's way through the page, and what it took."""

    page: Page
    presses: int = 0
    characters: int = 0
    scrolls: int = 0
    waited_s: float = 0.0
    found: str = ""
    """What the visitor sees at the end."""
    steps: list[str] = field(default_factory=list)

    @property
    def by_hand_s(self) -> float:
        """Seconds of the visitor's own work by the keystroke-level model."""
        return self.presses * PRESS_S + self.characters * CHARACTER_S + self.scrolls * SCROLL_S

    def open(self, url: str) -> None:
        """Open the page and wait until it can be used."""

        def ready() -> None:
            self.page.goto(url)
            self.page.wait_for_function("window.playground?.page?.connected()")
            self.page.wait_for_function(_STEADY)

        self.wait(ready)

    def press(self, target: Locator, says: str, at: float | None = None) -> None:
        """Press something, at a share of its width if given; scroll to it first if it is outside."""
        self.look(target)
        box = target.bounding_box()
        assert box
        target.click(
            position=None if at is None else {"x": box["width"] * at, "y": box["height"] / 2}
        )
        self.presses += 1
        self.steps.append(says)

    def type(self, target: Locator, text: str) -> None:
        """Replace the text of a field."""
        self.press(target, "the prompt")
        target.fill(text)
        self.characters += len(text)

    def look(self, target: Locator) -> None:
        """Scroll to what the visitor looks at, if it is not in the window."""
        expect(target).to_be_visible()
        if not target.evaluate(_IN_WINDOW):
            target.scroll_into_view_if_needed()
            self.scrolls += 1

    def wait(self, until: Callable[[], object]) -> None:
        """Wait until the page has done what it was asked for."""
        begun = time.monotonic()
        until()
        self.waited_s += time.monotonic() - begun


def move_temperature(walk: Walk, url: str) -> None:
    """Find the temperature and see what another value does."""
    walk.open(url)
    page = walk.page
    sentence = page.locator("#sampling-stage .dp-v-sentence")
    before = sentence.inner_text()
    walk.press(page.locator("#sampling-temperature input[type=range]"), "Temperature", at=0.1)
    walk.wait(lambda: expect(sentence).not_to_have_text(before))
    # A slow machine says so until it has decided the step.
    walk.wait(lambda: expect(sentence).not_to_have_text("Deciding this step again…"))
    walk.look(sentence)
    walk.found = sentence.inner_text()


def explain_surprise(walk: Walk, url: str) -> None:
    """Say why a surprising word was taken."""
    walk.open(url)
    page = walk.page
    stage = page.locator("#sampling-stage")
    walk.press(stage.locator(".dp-tok:is(.s2, .s3)").first, "an underlined word")
    walk.wait(lambda: page.wait_for_function(_STEADY))
    walk.press(stage.get_by_role("tab", name="Why", exact=True), "Why")
    answer = stage.locator(".dp-v-why")
    walk.wait(lambda: expect(answer).to_be_visible())
    walk.look(stage.locator(".dp-v-sentence"))
    walk.found = stage.locator(".dp-v-sentence").inner_text()


def stop_loop(walk: Walk, url: str) -> None:
    """Open a text that goes in circles, and decode it with a strategy that does not."""
    walk.open(url)
    page = walk.page
    walk.press(strategy_tab(page, "greedy"), "Greedy")
    walk.press(page.locator("#page-greedy .dp-menu summary"), "Try")
    walk.press(
        page.locator("#page-greedy .dp-menu").get_by_role(
            "button", name="Stuck in a loop", exact=True
        ),
        "Stuck in a loop",
    )
    walk.wait(lambda: expect(page.locator("#greedy-stage .dp-tok[data-step]")).to_have_count(80))
    assert repeats(page, "greedy") > 0.8
    walk.press(strategy_tab(page, "contrastive_search"), "Avoid repeats")
    before = page.evaluate("playground.page.runId('contrastive_search')")
    walk.press(page.locator("#contrastive_search-run"), "Run")
    walk.wait(lambda: page.wait_for_function(_ENDED, arg=["contrastive_search", before]))
    share = repeats(page, "contrastive_search")
    assert share < 0.2
    walk.found = f"{100 * share:.0f} % of three tokens in a row repeat, before it was over 80 %"


def compare_beams(walk: Walk, url: str) -> None:
    """Compare greedy search with beams on a prompt of one's own."""
    walk.open(url)
    page = walk.page
    walk.press(page.locator(".dp-places a[data-place=compare]"), "Compare")
    compare = page.locator(".dp-compare")
    walk.press(compare.locator(".dp-menu summary"), "Try")
    walk.press(
        compare.get_by_role("button", name="Beam search and greedy", exact=True),
        "Beam search and greedy",
    )
    walk.wait(lambda: expect(compare.locator(".cmp-text")).to_have_count(2))
    walk.type(compare.locator("textarea").first, "The old sailor told the children a")
    walk.press(compare.get_by_role("button", name="Run all", exact=True), "Run all")
    expect(compare.locator(".cmp-results .cmp-table")).to_have_count(0)
    walk.wait(lambda: expect(compare.locator(".cmp-results .cmp-table")).to_be_visible())
    walk.look(compare.locator(".cmp-lead"))
    walk.found = compare.locator(".cmp-verdict").inner_text().replace("\n", " ")


def teach_class(walk: Walk, url: str) -> None:
    """Teach a class the first lesson: open a classroom, take a bet and reveal the answer."""
    walk.open(url)
    page = walk.page
    walk.press(page.locator(".dp-places a[data-place=learn]"), "Learn")
    walk.press(page.get_by_role("button", name="Let a class bet"), "Let a class bet")
    walk.press(page.get_by_role("button", name="Open a room"), "Open a room")
    code = page.locator(".rm-code")
    walk.wait(lambda: expect(code).to_be_visible())
    walk.press(page.get_by_role("button", name="Present", exact=True), "Present")
    pupil_bets(page, url, code.text_content() or "")
    bar = page.locator(".ls-bar")
    walk.wait(lambda: expect(bar).to_contain_text("1 have bet"))
    walk.press(bar.get_by_role("button", name="Reveal", exact=True), "Reveal")
    table = page.locator(".ls-present .ls-card.revealed .rm-table")
    walk.wait(lambda: expect(table).to_be_visible())
    walk.found = "The class's bet and the model's answer in one table"


def pupil_bets(page: Page, url: str, code: str) -> None:
    """Let one pupil join on a phone and bet; nothing of it counts for the teacher."""
    browser = page.context.browser
    assert browser
    pupil = browser.new_page(viewport={"width": 390, "height": 844})
    pupil.set_default_timeout(PATIENCE_MS)
    pupil.goto(f"{url}/room/{code}")
    pupil.get_by_role("radio").first.check()
    pupil.get_by_role("button", name="Bet", exact=True).click()
    expect(pupil.get_by_role("button", name="✓ Your bet is in")).to_be_visible()
    pupil.close()


TASKS: dict[str, Callable[[Walk, str], None]] = {
    "Find the temperature and move it": move_temperature,
    "Say why a surprising word was taken": explain_surprise,
    "Make a loop stop": stop_loop,
    "Compare greedy with beams on your own prompt": compare_beams,
    "Teach a class the first lesson": teach_class,
}
_ENDED = """([key, before]) => {
  const run = playground.page.shown(key);
  return run && run.id !== before && run.status === "finished";
}"""
_REPEATS = "(key) => playground.page.shown(key).metrics?.rep_3"


def repeats(page: Page, key: str) -> float:
    """Return the share of repeated groups of three tokens in the run that a stage shows."""
    return page.evaluate(_REPEATS, key)


def strategy_tab(page: Page, name: str) -> Locator:
    """Return a strategy's tab in the row of strategies."""
    return page.locator(f"#tab-{name}-button")


def walk_all(url: str, shots: Path | None) -> dict[tuple[int, str], Walk]:
    """Walk every task at every size; return what each took, by width and task."""
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**launch_options())
        found = {}
        for width, height in SIZES:
            for number, (title, task) in enumerate(TASKS.items(), 1):
                found[width, title] = walk_task(browser, (width, height), url, task)
                if shots:
                    page = found[width, title].page
                    page.screenshot(path=shots / f"task{number}-{width}.png")
                found[width, title].page.context.close()
        browser.close()
    return found


def walk_task(
    browser: Browser, size: tuple[int, int], url: str, task: Callable[[Walk, str], None]
) -> Walk:
    """Walk one task in a browser that knows nothing of the page yet."""
    width, height = size
    page = browser.new_context(viewport={"width": width, "height": height}).new_page()
    page.set_default_timeout(PATIENCE_MS)
    walk = Walk(page)
    task(walk, url)
    return walk


def to_tables(found: dict[tuple[int, str], Walk]) -> str:
    """Return what the walks took as one Markdown table for each width."""
    heads = ("task", "presses", "typed", "scrolls", "by hand, s", "waiting, s", "way", "end")
    parts = []
    for width, height in SIZES:
        lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
        for (wide, title), walk in found.items():
            if wide == width:
                counts = walk.presses, walk.characters, walk.scrolls
                times = f"{walk.by_hand_s:.0f}", f"{walk.waited_s:.1f}"
                cells = title, *map(str, counts), *times, " → ".join(walk.steps), walk.found
                lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
        parts.append(f"## {width} × {height}\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Walk the tasks, and print the tables or write them to the docs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="of a running playground; without it one is started")
    parser.add_argument("--write", action="store_true", help=f"write {FILE.name}")
    parser.add_argument("--shots", type=Path, help="folder for a picture of each task's end")
    asked = parser.parse_args()
    if asked.shots:
        asked.shots.mkdir(parents=True, exist_ok=True)
    with served(asked.url) as url:
        tables = to_tables(walk_all(url, asked.shots))
    if asked.write:
        about = machine()
        busy = f"{about['cores']} cores at a load of {about['load_average'][0]:.0f}"
        head = _HEAD.format(date=now()[:10], commit=commit(), machine=busy)
        FILE.write_text(wrap_markdown(head) + "\n" + tables, "utf-8")
    else:
        sys.stdout.write(tables)


if __name__ == "__main__":
    main()
