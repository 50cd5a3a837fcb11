"""axe-core over the page: nothing serious or critical, in light, dark and on a phone."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from engine import STRATEGIES
from engine.analysis import gallery
from tests.helpers.axe import COLOUR_RULES, answer_of, grave_in
from tests.helpers.pages import finish, link, open_recording, open_tab, settled, status, view

pytestmark = pytest.mark.nightly

TABS = ("Bench", "Compare", "Tune", "Draws", "Taste", "Replay")
"""Those without a strategy."""
OWN_VISUALS = ("beam_search", "contrastive_search", "dola", "speculative", "watermark")


def findings(page, within=None, rules=None):
    """Return what axe calls serious or critical, one line each, on the page or within selectors."""
    settled(page)
    answer = answer_of(page, within, rules)
    assert answer["testEngine"]["name"] == "axe-core"
    if rules is None:
        assert len(answer["passes"]) > (5 if within else 20), "axe looked at nothing"
    else:
        assert answer["passes"] + answer["incomplete"] + answer["violations"]
    return grave_in(answer)


def both_themes(page, within=None):
    """Return the findings in light, and those about colours in dark; the page is light again afterwards.

    The dark theme is a class that changes colours only, so the other rules have the same answer.
    """
    text = "getComputedStyle(document.querySelector('.dp-head h1')).color"
    found, light = findings(page, within), page.evaluate(text)
    page.evaluate("document.body.classList.add('dark')")
    assert page.evaluate(text) != light, "the page did not turn dark"
    found += [f"dark: {line}" for line in findings(page, within, COLOUR_RULES)]
    page.evaluate("document.body.classList.remove('dark')")
    return found


def test_the_first_page_and_a_refusal(open_page):
    page = open_page("/?__theme=light")
    expect(page.locator("#greedy-stage .dp-tok[data-step]").first).to_be_visible()
    assert both_themes(page) == []
    page.locator("#greedy-prompt textarea").fill("")
    page.locator("#greedy-run").click()
    expect(status(page, "greedy")).to_contain_text("write 1 to 8000")
    assert both_themes(page) == []


def test_a_guess_before_and_after_it_is_revealed(open_page):
    page = open_page("/?__theme=light", width=390, height=844)
    box = view(page.locator("#greedy-stage"), "predict")
    box.get_by_role("switch").click()
    expect(box.get_by_role("radio").first).to_be_focused()
    assert both_themes(page) == []
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    expect(box.get_by_role("button", name="Next", exact=True)).to_be_focused()
    assert both_themes(page) == []


def test_a_run_on_a_phone(open_page):
    address = link("sampling", "Once upon a time", "&__theme=light", max_new_tokens=12)
    page = open_page(address, width=390, height=844)
    finish(page, "sampling")
    assert both_themes(page) == []


def test_the_pictures_of_every_family(open_page):
    page = open_page("/?__theme=light")
    open_tab(page, "Replay")
    for strategy in OWN_VISUALS:
        entry = next(e for e in gallery.list_entries() if e.strategy == strategy)
        open_recording(page, entry)
        for visual in STRATEGIES[strategy].visuals:
            card = view(page.locator("#replay-player"), visual).locator("> div")
            expect(card).to_be_visible()
        assert findings(page) == [], strategy
    assert both_themes(page) == []


DRAWN = ".dp-tok[data-step], .pt-node, .wm-verdict"
FIRST = {"Replay": ".dp-preset", "Taste": ".ts-pair", "Lessons": ".ls-card", "Tune": ".tn-plan"}
"""What a tab shows first, where that is no run."""


def test_every_tab_without_a_strategy_as_it_opens(open_page):
    page = open_page("/?__theme=light")
    for name in TABS:
        open_tab(page, name)
        expect(page.locator(FIRST.get(name, DRAWN)).locator("visible=true").first).to_be_visible()
        assert findings(page) == [], name


OF_EVERY_KIND = ("sampling", "masked_diffusion", "mtp", *OWN_VISUALS)
"""Strategies whose panels hold all that there is: these are looked at in the dark and on a phone, too."""


@pytest.mark.parametrize(
    ("strategy", "width", "look"),
    [
        *((one, 1440, both_themes if one in OF_EVERY_KIND else findings) for one in STRATEGIES),
        *((one, 390, findings) for one in OF_EVERY_KIND),
    ],
)
def test_every_panel_of_every_tab(open_page, strategy, width, look):
    # Axe looks at every row of every table: of a long run there are many, all alike.
    address = link(strategy, "Once upon a time", "&__theme=light", max_new_tokens=8)
    page = open_page(address, width=width, height=900)
    finish(page, strategy)
    stage = page.locator(f"#{strategy}-stage")
    stage.locator(".dp-tok[data-step]").first.click()
    for panel in stage.locator(".dp-panel-tab").all():
        # The pointer may rest on a term, whose meaning would lie over the next tab.
        page.mouse.move(0, 0)
        # The first panel of a group opens with it, and a press would close it.
        if panel.get_attribute("aria-selected") != "true":
            panel.click()
    assert look(page) == []
    # As for printing: all panels lie open at once, and axe need not ask once for each of them.
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    panels = stage.locator(".dp-panel").all_inner_texts()
    assert len(panels) > 8
    assert all(text.strip() for text in panels)
    assert look(page, [f"#{strategy}-stage"]) == []
