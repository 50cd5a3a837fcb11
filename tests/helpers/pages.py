"""What the browser tests do with a page: open a tab, run, wait for what is drawn, keep a picture.

A wait is for a state, never for a time: the store of the page (``playground.page``) says what a run has come to,
its stages say how much of it they have drawn.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Locator, Page, expect

from engine import STRATEGIES, Trace
from engine.analysis.gallery import GalleryEntry
from engine.trace import json_io
from tests.helpers.patience import comes_true

# Tab -> its place; all others are strategies. The one tab of learn has no button.
PLACES = {
    "Compare": "compare",
    "Tune": "compare",
    "Draws": "compare",
    "Taste": "compare",
    "Replay": "library",
    "Bench": "library",
}
# A saved page has no such object, and nothing of it waits for a server.
_WAIT_UNTIL_DRAWN = """async () => {
  const due = () => (window.playground?.page?.stages ?? [])
    .some((stage) => stage.root.isConnected && stage.dirty);
  while (due()) await new Promise(requestAnimationFrame);
}"""
_SHOTS = os.environ.get("PLAYGROUND_SCREENSHOTS")
# A run that is another one than before has come to an end, and its stage shows all of it.
_DRAWN = """([key, before]) => {
  // A page that is just being loaded anew has no scripts yet.
  if (!window.playground?.page) return false;
  const id = playground.page.runId(key), run = playground.page.runs.get(id);
  const ended = run && id !== before && ["finished", "stopped", "failed"].includes(run.status);
  const whole = (s) => s.strategy === key && s.root.isConnected && s.run === run && !s.dirty
    && s.drawn === run.steps.length;
  return ended && playground.page.stages.some(whole);
}"""
# The steps of a run again, one message each, as the server sends them; what ``look`` finds each time.
_FEED = """async ([key, look]) => {
  const old = playground.page.shown(key), find = eval(look), seen = [];
  const later = ["steps", "outputs", "timing", "metrics", "notes"];
  const kept = [...old.fields, "fields"].filter((field) => !later.includes(field));
  const header = Object.fromEntries(kept.map((field) => [field, old[field]]));
  const stage = () => playground.page.stages.find((s) => s.strategy === key && s.root.isConnected);
  const frame = () => new Promise(requestAnimationFrame);
  let seq = 0;
  const send = async (message) => {
    playground.page.receive(JSON.stringify({ run: old.id + "-again", seq: seq++, ...message }));
    do await frame(); while (stage().dirty);
  };
  await send({ kind: "start", strategy: key, header, link: location.href });
  for (const [i, step] of old.steps.entries()) {
    await send({ kind: "delta", steps: [step], shown: [old.shown[i]] });
    seen.push(find());
  }
  return seen;
}"""


def link(strategy: str, prompt: str, suffix: str = "", **params: Any) -> str:
    """Return the address that makes a page run a strategy by itself."""
    fields = {"strategy": strategy, "prompt": prompt, "params": json.dumps(params)}
    return "/?" + urlencode(fields) + suffix


def open_tab(page: Page, title: str) -> None:
    """Open a tab, in its place of the page."""
    page.locator(f".dp-places a[data-place={PLACES.get(title, 'explore')}]").click()
    tabs = page.locator("#strategies > .tab-wrapper > [role=tablist] > [role=tab]")
    tab = tabs.filter(has_text=re.compile(f"^{re.escape(title)}$"))
    tab.wait_for(state="attached")
    if not tab.is_visible():  # in a group that shows another of its strategies
        group = next(s.group for s in STRATEGIES.values() if s.tab == title)
        others = [s.tab for s in STRATEGIES.values() if s.group == group]
        tabs.filter(has_text=re.compile(f"^({'|'.join(map(re.escape, others))})$")).locator(
            "visible=true"
        ).click()
    tab.click()


def show(page: Page, strategy: str) -> None:
    """Open a strategy's tab."""
    open_tab(page, STRATEGIES[strategy].tab)
    expect(page.locator(f"#{strategy}-run")).to_be_visible()


def view(stage: Any, name: str) -> Locator:
    """Return a view of a stage, or of a page with one; the panels around it are opened first."""
    expect(stage.locator(f".dp-v-{name}").first).to_be_attached()
    comes_true(lambda: _open_panels(stage, name))
    # A panel is drawn in the frame after it was opened.
    shown = stage.locator(f".dp-v-{name}")
    shown.first.evaluate(_WAIT_UNTIL_DRAWN)
    return shown


def _open_panels(stage: Any, name: str) -> bool:
    """Open the panels around a view; False if another recording has taken their place meanwhile."""
    # The outer one comes first.
    for panel in stage.locator(f".dp-panel:has(.dp-v-{name})").all():
        tab = stage.locator(f"[id='{panel.get_attribute('aria-labelledby')}']")
        if not tab.count():
            return False
        if tab.get_attribute("aria-selected") != "true":
            tab.click()
        expect(tab).to_have_attribute("aria-selected", "true")
    return True


def choose_example(page: Page, strategy: str, name: str) -> None:
    """Choose one of a strategy's examples."""
    _choose_from_menu(page.locator(f"#page-{strategy} .dp-menu"), name)


def choose_comparison(page: Page, name: str) -> None:
    """Choose an example of the compare tab."""
    _choose_from_menu(page.locator(".dp-compare .dp-menu"), name)


def _choose_from_menu(menu: Locator, name: str) -> None:
    menu.locator("summary").click()
    menu.get_by_role("button", name=name, exact=True).click()


def open_compare_settings(page: Page) -> None:
    """Open the drawer with the settings of the compared texts."""
    page.locator(".cmp-drawer > summary", has_text="Settings of the texts").click()


def open_settings(page: Page, strategy: str) -> None:
    """Open the settings of a strategy's tab, which are closed where there is no room beside its text."""
    toggle = page.locator(f"#page-{strategy} .dp-dials-more > .dp-fold")
    if toggle.get_attribute("aria-expanded") != "true":
        toggle.click()


def unfold(page: Page, strategy: str, group: str, name: str) -> None:
    """Open a group of settings and wait for one of its controls."""
    open_settings(page, strategy)
    page.locator(f"#page-{strategy} summary", has_text=group).click()
    expect(page.locator(f"#{strategy}-{name}")).to_be_visible()


def own_model(choice: Locator) -> Locator:
    """Return the field for a model that the list lacks; the fields of an address are beside it."""
    return choice.locator("input[type=text]").first


def name_model(page: Page, folder: str, tab: str = "greedy") -> None:
    """Type the folder of a model; the page asks what it takes."""
    if tab != "draws":  # its settings have no fold
        open_settings(page, tab)
    choice = page.locator(f"#{tab}-model-input")
    # The last one is any other.
    choice.select_option(index=choice.locator("option").count() - 1)
    typed = own_model(page.locator(f"#{tab}-model"))
    typed.fill(folder)
    typed.press("Tab")


def name_server(page: Page, base: str, strategy: str = "greedy") -> Locator:
    """Choose a model behind an address, as a visitor does; return the field of the model."""
    open_settings(page, strategy)
    field = page.locator(f"#{strategy}-model")
    expect(field.get_by_label("Address")).to_be_hidden()
    field.get_by_label("Model", exact=True).select_option(label="An address…")
    expect(field.get_by_role("button", name="Model details")).to_be_hidden()
    # A server has weights of its own, and needs no model here.
    weights = page.locator(f"#page-{strategy} details", has_text="Weights")
    expect(weights).to_have_count(1)
    expect(weights).to_be_hidden()
    expect(field.locator(".f-install")).to_be_hidden()
    expect(field.get_by_label("Address")).to_be_focused()
    field.get_by_label("Address").fill(base)
    field.get_by_label("Model there").fill("m")
    fill(page, f"{strategy}-max_new_tokens", 6)
    return field


def with_model(opener: Any, folder: str, tab: str = "greedy", path: str = "/", **size: int) -> Page:
    """Open a page, name a model in one of its tabs and ask for four tokens."""
    page = opener(path, **size)
    if tab != "greedy":
        show(page, tab)
    name_model(page, folder, tab)
    page.locator(f"#{tab}-max_new_tokens input[type=number]").fill("4")
    return page


def give(
    page: Page,
    data: bytes,
    tab: str = "greedy",
    kind: str = "image",
    name: str = "own.png",
    mime: str = "image/png",
) -> None:
    """Choose a file for a model to see or to hear."""
    file: Any = {"name": name, "mimeType": mime, "buffer": data}
    page.set_input_files(f"#{tab}-{kind}-file", file)


def fill(page: Page, name: str, value: Any) -> None:
    """Type a number into a control of the page and leave it."""
    field = page.locator(f"#{name} input[type=number]")
    field.fill(str(value))
    field.press("Tab")


def run_id(page: Page, key: str) -> str:
    """Return the id of the run that a stage shows, empty when it shows none."""
    return page.evaluate("key => playground.page.runId(key)", key)


def start(page: Page, strategy: str) -> str:
    """Press Run; return the id of the run that was shown before."""
    before = run_id(page, strategy)
    page.locator(f"#{strategy}-run").click()
    return before


def finish(page: Page, strategy: str, before: str = "", says: str = "Done") -> None:
    """Wait until a run, another one than ``before``, is done and drawn, and its status says so."""
    page.wait_for_function(_DRAWN, arg=[strategy, before])
    expect(status(page, strategy)).to_contain_text(says)


def run(page: Page, strategy: str) -> None:
    """Press Run and wait until that run is done and drawn."""
    finish(page, strategy, start(page, strategy))


def feed(page: Page, key: str, look: str) -> list[Any]:
    """Send the steps of a finished run once more, one at a time, and watch them being drawn.

    Args:
        page: the page.
        key: what its stage is called.
        look: a JavaScript function, called when a step has been drawn.

    Returns:
        What ``look`` returned after each step. The run stays unfinished.
    """
    return page.evaluate(_FEED, [key, look])


def settled(page: Page) -> None:
    """Wait until nothing moves: a page that has just appeared is still fading in."""
    page.wait_for_function("document.getAnimations().every((a) => a.playState !== 'running')")


def address(page: Page, says: str = "") -> str:
    """Return a page's address, once it says something. Playwright's own is told of a change later than the page."""
    page.wait_for_function("says => location.search.includes(says)", arg=says)
    return page.evaluate("location.href")


def status(page: Page, strategy: str) -> Locator:
    """Return the line that says how the run of a tab is doing."""
    return page.locator(f"#{strategy}-stage .dp-v-status .dp-status")


def tokens(page: Page, strategy: str) -> Locator:
    """Return the tokens of the text of a tab."""
    return page.locator(f"#{strategy}-stage .dp-tok[data-step]")


def run_of(page: Page, key: str, field: str) -> Any:
    """Return a field of the run that a stage shows, as the page's store has it."""
    _wait_for_run(page, key)
    return page.evaluate("([key, field]) => playground.page.shown(key)[field]", [key, field])


def trace_of(page: Page, key: str) -> Trace:
    """Return the run that a stage shows, read as a saved file of it would be."""
    _wait_for_run(page, key)
    text = page.evaluate(
        "key => JSON.stringify(playground.page.trace(playground.page.shown(key)))", key
    )
    return json_io.loads(text)


def _wait_for_run(page: Page, key: str) -> None:
    """Wait for a stage's run: a recorded one comes from the server, after the words of its form."""
    page.wait_for_function("key => playground.page.shown(key)", arg=key)


def select(page: Page, key: str, step: int) -> None:
    """Select a step and wait until it is drawn."""
    page.evaluate(
        "([key, step]) => playground.page.select(playground.page.shown(key), step)", [key, step]
    )
    drawn(page, key)


def drawn(page: Page, key: str) -> None:
    """Wait until a stage shows what the page's store holds."""
    page.wait_for_function(
        "key => playground.page.stages.every((s) => s.strategy !== key || !s.root.isConnected || !s.dirty)",
        arg=key,
    )


def piece(page: Page, key: str, token_id: int) -> str:
    """Return a token as the page writes it."""
    return page.evaluate(
        "([k, t]) => playground.page.piece(playground.page.shown(k), t)", [key, token_id]
    )


def words(page: Page, key: str, token_ids: Sequence[int]) -> str:
    """Return what tokens of a run say, invisible characters made visible."""
    return page.evaluate(
        "([k, ids]) => playground.page.visible(ids.map((i) => playground.page.shown(k).pieces[i]).join(''))",
        [key, list(token_ids)],
    )


def until(target: Locator, claim: str, arg: Any = None) -> None:
    """Wait until a JavaScript function of an element (and ``arg``) says true."""
    function = f"([element, arg]) => ({claim})(element, arg)"
    target.page.wait_for_function(function, arg=[target.element_handle(), arg])


def minus(number: float) -> str:
    """Return a number of at least 0.1 as the page writes it."""
    return f"{number:,.2f}".replace("-", "−")


def fits(page: Page) -> bool:
    """Return whether nothing makes the page scroll sideways."""
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def shot(target: Page | Locator, label: str) -> None:
    """Keep a picture for people, never compared."""
    if _SHOTS:
        whole = {"full_page": True} if isinstance(target, Page) else {}
        target.screenshot(path=Path(_SHOTS) / f"{label}.png", **whole)


def open_recording(page: Page, entry: GalleryEntry) -> None:
    """Open a recorded run from the list of the Replay tab, and wait for the player to show it."""
    fold = page.locator(f".gl-strategy[data-strategy={entry.strategy}]")
    if fold.get_attribute("open") is None:
        fold.locator("summary").click()
    fold.get_by_role("button", name=entry.preset, exact=True).click()
    expect(page.locator("#replay-player .pl-title")).to_have_text(entry.title)
