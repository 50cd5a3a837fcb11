"""What if in the browser: what a dial and a card foretell is what a run then writes."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from engine.analysis import gallery
from tests.helpers import pages
from tests.helpers.pages import (
    fill,
    finish,
    fits,
    link,
    open_recording,
    open_settings,
    open_tab,
    run_id,
    select,
    settled,
    shot,
    show,
    trace_of,
    words,
)

pytestmark = pytest.mark.nightly

STORY = "The dragon opened the door and"
FIRST = re.compile(r"would have changed is step (\d+): ‘(.*)’ instead of ‘(.*)’\.")
TOLD = re.compile(r"(.*) the (?:draw|choice) (becomes|stays) ‘(.*)’\.")


def view(page):
    """Return the view, its tab opened."""
    return pages.view(page.locator(".dp-stage:visible"), "what_if")


def _spaced(text):
    """Return a text with plain spaces: those of a token in quotes do not break."""
    return text.replace("\u00a0", " ")


def dial(page, strategy="sampling"):
    """Return the slider of a strategy's first dial."""
    return page.locator(f"#page-{strategy} .f-dials input[type=range]").first


def switch_off(page, name):
    """Switch a filter off."""
    view(page).get_by_role("checkbox", name=name).uncheck()


def sampled(open_page, step=6, **size):
    page = open_page(link("sampling", STORY, max_new_tokens=24, top_p=0.95), **size)
    finish(page, "sampling")
    select(page, "sampling", step)
    return page


def told(page, opening):
    """Wait for an answer that begins so; return what becomes of the step, and its token."""
    say = view(page).locator(".wi-status")
    expect(say).to_have_text(re.compile(f"^{re.escape(opening)} .*’\\.$"))
    found = TOLD.fullmatch(_spaced(say.inner_text()))
    return found[2], found[3]


def first_change(page):
    """Return step (from 1), new and old token of the first change."""
    line = view(page).locator(".wi-first > span")
    expect(line).to_have_text(FIRST)
    found = FIRST.search(_spaced(line.inner_text()))
    return int(found[1]), found[2], found[3]


def test_a_filter_joins_the_dial_and_the_run_writes_what_was_foretold(open_page):
    page = sampled(open_page)
    before, run = trace_of(page, "sampling"), run_id(page, "sampling")
    expect(view(page).locator(".wi-status")).to_contain_text("Switch a filter off")
    # The dial above the text is the only control of the temperature.
    expect(view(page).locator("input[type=range]")).to_have_count(0)
    switch_off(page, "Top-p")
    told(page, "Without top-p")
    dial(page).fill("1.9")
    told(page, "With these settings")
    step, new, old = first_change(page)
    assert old == words(page, "sampling", before.steps[step - 1].emit)
    view(page).get_by_role("button", name=f"Go to step {step}").click()
    expect(page.locator("#sampling-stage .dp-scrub output")).to_contain_text(f"Word {step} of")
    assert told(page, "With these settings") == ("becomes", new)
    shot(view(page), "what-if")
    view(page).get_by_role("button", name="Run with these settings").click()
    finish(page, "sampling", run)
    after = trace_of(page, "sampling")
    assert after.config["temperature"] == 1.9
    assert after.config["top_p"] in (None, 1)
    assert words(page, "sampling", after.steps[step - 1].emit) == new != old
    for a, b in zip(before.steps[: step - 1], after.steps[: step - 1], strict=True):
        assert a.emit == b.emit
    # The new run is asked from its own settings on.
    expect(view(page).locator(".wi-status")).to_contain_text("Switch a filter off")
    expect(dial(page)).to_have_value("1.9")


def test_processors_are_switched_off_and_moved_by_key_and_by_mouse(open_page):
    page = sampled(open_page)
    cards = view(page).get_by_role("listitem")
    expect(cards).to_have_text([re.compile("Top-k"), re.compile("Top-p")])
    later = view(page).get_by_role("button", name="Move Top-k later")
    later.focus()
    page.keyboard.press("Enter")
    told(page, "In this order")
    expect(cards).to_have_text([re.compile("Top-p"), re.compile("Top-k")])
    expect(view(page).get_by_role("button", name="Move Top-k earlier")).to_be_focused()
    expect(view(page).get_by_role("button", name="Run with these settings")).to_be_disabled()
    expect(view(page)).to_contain_text("No settings give these filters in this order")
    cards.nth(1).drag_to(cards.nth(0))
    expect(cards).to_have_text([re.compile("Top-k"), re.compile("Top-p")])
    told(page, "With the run’s own settings")
    off = view(page).get_by_role("checkbox", name="Top-p")
    off.focus()
    page.keyboard.press("Space")
    told(page, "Without top-p")
    expect(cards.nth(1)).to_have_class("off")
    expect(cards.nth(1)).to_contain_text("off")
    expect(view(page).get_by_role("button", name="Run with these settings")).to_be_enabled()
    view(page).get_by_role("button", name="Reset").click()
    expect(view(page).locator(".wi-status")).to_contain_text("Switch a filter off")
    expect(off).to_be_checked()


def test_cut_lines_and_figures_follow_a_setting(open_page):
    page = sampled(open_page)
    open_settings(page, "sampling")
    switch_off(page, "Top-p")
    fill(page, "sampling-top_k", 3)
    told(page, "With these settings")
    expect(view(page).locator(".wi-cut").last).to_have_text(re.compile("Top-k leaves 3, each with"))
    expect(view(page).locator(".wi-facts")).to_contain_text(re.compile("tokens left [123]"))
    rows = view(page).get_by_role("rowheader")
    assert rows.count() >= 3
    fill(page, "sampling-top_k", 4000)
    told(page, "With these settings")
    expect(view(page).locator(".wi-facts")).to_contain_text("tokens left 4,000")
    expect(view(page).locator(".wi-facts")).to_contain_text("entropy")
    fill(page, "sampling-top_k", -1)
    expect(view(page).locator(".wi-status")).to_contain_text(
        "top_k = -1 is not allowed: it must be a whole number from 0"
    )
    expect(view(page).get_by_role("table")).to_be_hidden()
    select(page, "sampling", 7)
    expect(view(page).locator(".wi-status")).to_contain_text("top_k = -1")


def test_a_recorded_run_and_a_strategy_that_cannot_be_asked(open_page):
    page = open_page("/")
    open_tab(page, "Replay")
    # A run of the library has no dials, so the view has sliders.
    open_recording(page, next(e for e in gallery.list_entries() if e.strategy == "greedy"))
    expect(view(page).locator(".wi-status")).to_contain_text("Move a slider")
    view(page).get_by_label("Repetition penalty, slider").first.fill("1.5")
    told(page, "With repetition penalty 1.5")
    expect(view(page)).to_contain_text(
        re.compile("no longer kept|only its recorded candidates are known")
    )
    entry = next(e for e in gallery.list_entries() if e.strategy == "beam_search")
    open_recording(page, entry)
    # What stood there before is there until then, with panels of its own.
    expect(page.locator(".dp-stage:visible .dp-v-beam_tree")).to_be_attached()
    expect(view(page)).to_contain_text("its beams depend on each other")
    expect(view(page).get_by_role("button", name="Run with these settings")).to_be_hidden()


def test_it_fits_a_phone(open_page):
    page = sampled(open_page, width=390, height=844)
    page.locator("#sampling-stage .dp-tok[data-step='5']").click()
    switch_off(page, "Top-p")
    told(page, "Without top-p")
    settled(page)
    assert fits(page)
    shot(view(page), "what-if-phone")


def test_other_strategies_are_asked(open_page):
    page = open_page(link("watermark", STORY, max_new_tokens=16, scheme="synthid", top_k=0))
    finish(page, "watermark")
    switch_off(page, "SynthID tournament")
    told(page, "Without SynthID tournament")
    expect(view(page).locator(".wi-first > span")).to_have_text(re.compile(r"changed"))
    show(page, "watermark")
