"""A strategy's dials: next to the prompt, above the text, and answered as soon as they move."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from engine import STRATEGIES
from engine.analysis import gallery
from engine.analysis.dial_map.grid import map_two_sliders
from engine.run.request import request_from_trace
from engine.trace.dial_map_json import load_dial_map
from tests.helpers.first_screen import MOST, count_first_screen
from tests.helpers.pages import (
    choose_example,
    drawn,
    finish,
    fits,
    link,
    run,
    run_id,
    shot,
    show,
    tokens,
    trace_of,
    view,
)

PHONE = {"width": 390, "height": 844}
# From the prompt: its two kinds, Run, the strategies, the way back to the dial's default.
MOST_TABS = 6


def dials(page, strategy):
    """Return the dials of a strategy's tab."""
    return page.locator(f"#page-{strategy} .f-dials .f-field:visible")


def tab_to(page, field):
    """Go from the prompt to a field with the Tab key."""
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if field.evaluate("e => e === document.activeElement"):
            break
    expect(field).to_be_focused()


def answer(page, strategy):
    """Return the sentence above the picture."""
    return page.locator(f"#page-{strategy} .se-text")


@pytest.mark.nightly
@pytest.mark.parametrize(
    "size",
    [{}, PHONE],
    ids=["wide", "phone"],
)
def test_dials_are_above_the_text_and_the_first_screen_is_within_its_budget(open_page, size):
    page = open_page("/", **size)
    for name, strategy in STRATEGIES.items():
        show(page, name)
        expect(tokens(page, name)).not_to_have_count(0)
        drawn(page, name)
        # The settings of a visitor are closed at first.
        settings = page.locator(f"#page-{name} .dp-fold[aria-expanded=true]")
        if settings.count():
            settings.click()
        counts = count_first_screen(page, name)
        assert all((counts[part] or 0) <= most for part, most in MOST.items()), (name, counts)
        expect(dials(page, name)).to_have_count(len(strategy.dials))
        if not strategy.dials:
            continue
        first = dials(page, name).first.bounding_box()
        text = page.locator(f"#{name}-stage .dp-strip").bounding_box()
        assert first["y"] + first["height"] <= text["y"], name
        assert first["y"] <= 450, name
        page.locator(f"#{name}-prompt-input").focus()
        tab_to(page, page.locator(f"#{name}-{strategy.dials[0]}-input"))


def test_a_dial_is_eight_keys_from_the_top(open_page):
    page = open_page("/?tab=sampling")
    expect(tokens(page, "sampling")).not_to_have_count(0)
    page.locator("body").focus()
    page.keyboard.press("Tab")
    expect(page.locator(".dp-skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#sampling-prompt-input")).to_be_focused()
    tab_to(page, page.locator("#sampling-temperature-input"))


def focused_part(page):
    """Return which of the parts above the text has the focus."""
    parts = ".dp-places, .dp-top, #strategies > .tab-wrapper, .dp-dials"
    return page.evaluate(f"document.activeElement.closest('{parts}')?.classList[0] ?? ''")


@pytest.mark.nightly
def test_the_tab_key_follows_what_is_seen_and_a_key_runs(open_page):
    page = open_page("/?tab=sampling")
    expect(tokens(page, "sampling")).not_to_have_count(0)
    for key, parts in (
        ("Tab", ["dp-places", "dp-top", "tab-wrapper", "dp-dials"]),
        ("Shift+Tab", ["dp-dials", "tab-wrapper", "dp-top", "dp-places"]),
    ):
        if key == "Tab":
            page.get_by_role("link", name="Library", exact=True).focus()
        seen = [focused_part(page)]
        while seen[-1] != parts[-1] and len(seen) < 12:
            page.keyboard.press(key)
            seen.append(focused_part(page))
        assert list(dict.fromkeys(seen)) == parts, seen
    page.locator("#sampling-temperature-input").focus()
    before = run_id(page, "sampling")
    page.keyboard.press("Control+Enter")
    finish(page, "sampling", before)


def test_a_moved_dial_decides_the_shown_step_again(open_page):
    page = open_page("/")
    show(page, "sampling")
    expect(tokens(page, "sampling")).not_to_have_count(0)
    run(page, "sampling")
    button = page.locator("#sampling-run")
    slider = dials(page, "sampling").first.locator("input[type=range]")
    slider.focus()
    page.keyboard.press("Home")
    expect(answer(page, "sampling")).to_contain_text("0.01")
    expect(button).to_have_attribute("aria-description", "Settings changed")
    # The first word that would change is marked once the server has found it.
    expect(page.locator("#sampling-stage .tx-new")).to_have_count(1)
    shot(page, "dial-moved")
    # Another selected step is decided again with the dial where it is.
    said = answer(page, "sampling").text_content()
    tokens(page, "sampling").first.click()
    expect(answer(page, "sampling")).not_to_have_text(said)
    expect(answer(page, "sampling")).to_contain_text("0.01")
    # An example brings its own settings.
    choose_example(page, "sampling", STRATEGIES["sampling"].presets[1].name)
    expect(answer(page, "sampling")).not_to_contain_text("0.01")
    expect(button).not_to_have_attribute("aria-description", "Settings changed")


@pytest.mark.nightly
def test_a_dial_that_needs_a_run_says_so(open_page):
    page = open_page("/")
    show(page, "beam_search")
    expect(tokens(page, "beam_search")).not_to_have_count(0)
    dials(page, "beam_search").first.locator("input[type=range]").focus()
    page.keyboard.press("ArrowRight")
    expect(answer(page, "beam_search")).to_have_text("Press Run to see this.")
    # The run is what it asked for.
    run(page, "beam_search")
    expect(answer(page, "beam_search")).not_to_contain_text("Press Run")


def own_dial_map(name, dial):
    """Return a recorded run and the map of its dial."""
    path = gallery.dial_map_path(name, dial)
    return gallery.open_entry(f"{name}.json.gz"), load_dial_map(path.read_bytes())


def drag_to(page, slider, share):
    """Drag a slider's thumb to a share of its track; return the value there."""
    box = slider.bounding_box()
    middle = box["y"] + box["height"] / 2
    low, high, value = (float(slider.evaluate(f"n => n.{n}")) for n in ("min", "max", "value"))
    page.mouse.move(box["x"] + box["width"] * (value - low) / (high - low), middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * share, middle, steps=4)
    page.mouse.up()
    return float(slider.evaluate("n => n.value"))


def test_dragging_over_an_edge_of_a_map_shows_the_other_text_without_a_request(open_page):
    trace, known = own_dial_map("sampling-1", "temperature")
    page = open_page("/?trace=sampling-1")
    track = dials(page, "sampling").first
    slider = track.locator("input[type=range]")
    expect(track.locator(".dm-map i")).to_have_count(len(known.intervals))
    # From here on no request is answered: what appears needs none.
    page.route("**/*", lambda route: None)
    texts = []
    for share in (0.1, 0.7):
        value = drag_to(page, slider, share)
        there = known.interval_at(value)
        own = trace.outputs[0].token_ids
        at = next(i for i, (a, b) in enumerate(zip(own, there.token_ids, strict=False)) if a != b)
        new = page.locator("#sampling-stage .tx-new")
        rest = page.locator("#sampling-stage .tx-rest")
        expect(new).to_have_text(known.pieces[there.token_ids[at]].strip())
        ids = [i for i in there.token_ids[at + 1 :] if i not in trace.eos_token_ids]
        words = "".join(known.pieces[i] for i in ids)
        expect(rest).to_have_text(words.replace("\n", "⏎\n").strip())
        marked = tokens(page, "sampling").nth(at)
        expect(marked).to_have_class(re.compile(r"\bgone\b"))
        texts.append(words)
    assert texts[0] != texts[1]


def grid_part(page):
    """Return the part of a sampled run that maps two dials."""
    return view(page.locator("#sampling-stage"), "dial_map").locator(".gd-part")


@pytest.mark.nightly
def test_two_dials_are_mapped_at_a_press_and_a_cell_shows_its_text(open_page):
    asked = {"max_new_tokens": 4, "temperature": 0.8, "top_p": 0.9}
    page = open_page(link("sampling", "The dog", "&seed=4", **asked))
    finish(page, "sampling")
    trace = trace_of(page, "sampling")
    *_, known = map_two_sliders(request_from_trace(trace), *gallery.GRID_DIALS)
    part = grid_part(page)
    part.get_by_role("button", name="Map temperature and top-p together").click()
    cells = part.locator("g[data-text]")
    expect(cells).to_have_count(len(known.cells))
    # It begins at the run's own settings.
    text = part.locator(".gd-text")
    expect(text).to_have_text(trace.outputs[0].text.strip())
    box = part.get_by_role("slider", name="Temperature, Top-p")
    widest = max(
        (i for i, cell in enumerate(known.cells) if known.texts[cell.text] != own_text(known)),
        key=lambda i: known.cells[i].high - known.cells[i].low,
    )
    cells.nth(widest).click()
    cell = known.cells[widest]
    expect(text).to_have_text(known.texts[cell.text].text.strip())
    expect(part.locator(".gd-here")).to_have_count(1)
    assert int(cells.nth(widest).get_attribute("data-text")) == cell.text
    shot(page, "dial-grid")
    assert fits(page)
    # A key moves to the next row, at the same temperature.
    value = float(box.get_attribute("aria-valuenow"))
    step = 1 if cell.row == 0 else -1
    page.keyboard.press("ArrowUp" if step > 0 else "ArrowDown")
    expect(text).to_have_text(known.text_at(value, known.values[cell.row + step]).text.strip())


def own_text(known):
    """Return the text at the run's own settings."""
    return known.text_at(known.value, known.second_value)


@pytest.mark.nightly
@pytest.mark.parametrize("size", [{}, PHONE], ids=["wide", "phone"])
def test_a_recorded_run_brings_the_map_of_two_dials(open_page, size):
    known = gallery.find_dial_grid(gallery.find_entry("sampling-1"), *gallery.GRID_DIALS)
    page = open_page("/?trace=sampling-1", **size)
    part = grid_part(page)
    part.get_by_role("button", name="Map temperature and top-p together").click()
    expect(part.locator("g[data-text]")).to_have_count(len(known.cells))
    expect(part.locator(".gd-text")).to_have_text(
        re.compile(re.escape(own_text(known).text.strip()))
    )
    shot(page, f"dial-grid-{page.viewport_size['width']}")
    assert fits(page)
