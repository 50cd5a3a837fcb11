"""A page of its own opens from a file and in a notebook's frame: every picture, no error, no request."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from playwright.sync_api import expect

from engine.analysis import gallery
from tests.helpers.nightly import mark_nightly
from tests.helpers.pages import shot, view
from tests.helpers.recordings import FIRST
from visualizers import list_visuals
from visualizers.page import order_views, page


@contextmanager
def watched(browser):
    """Open a page that nobody serves; what it complains of or asks for fails the test."""
    problems = []
    alone = browser.new_page(viewport={"width": 1000, "height": 900})
    alone.on("pageerror", lambda error: problems.append(str(error)))
    alone.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
    alone.on("request", lambda r: problems.append(r.url) if r.url.startswith("http") else None)
    yield alone
    alone.close()
    assert not problems


def look(place, trace):
    """Look at a page or a frame that shows a run: every picture has something in it."""
    pictures = order_views(list_visuals(trace))
    expect(place.locator("h1")).to_have_text(f"{trace.strategy}, seed {trace.seed}")
    expect(place.locator(".dp-card")).to_have_count(len(pictures) + 1)  # and the player
    for name in pictures:
        card = view(place, name)
        expect(card.locator(".dp-empty").first).to_be_hidden()
        # A page may know no sentence, and a run may have been given no picture and no grammar.
        if name not in ("look", "media", "grammar"):
            expect(card.locator("> div")).not_to_be_empty()
    facts = place.locator(".dp-v-about")
    expect(facts).to_contain_text(trace.prompt)
    expect(facts).to_contain_text(trace.model.id)
    plots = place.locator(".lh-plot")
    for number in range(plots.count()):
        expect(plots.nth(number).locator(".main-svg").first).to_be_visible()
    place.locator(".dp-tok[data-step]").first.click()
    if trace.strategy == "masked_diffusion":  # its picture has a slider for its passes
        expect(place.locator(".dp-v-scrub")).to_be_hidden()
        return
    said, words = place.locator(".dp-v-scrub output"), len(trace.outputs[0].token_ids)
    expect(said).to_have_text(f"Word 1 of {words}")
    place.get_by_role("button", name="Next word").click()
    expect(said).to_have_text(f"Word 2 of {words}")


@pytest.mark.parametrize(
    "strategy", ["dola", *mark_nightly(name for name in FIRST if name != "dola")]
)
def test_a_page_opens_from_a_file(browser, tmp_path, strategy):
    trace = gallery.open_entry(FIRST[strategy].file)
    with watched(browser) as alone:
        alone.goto(page(trace).save(tmp_path / "run.html").as_uri())
        look(alone, trace)
        with alone.expect_download() as download:
            view(alone, "figures").get_by_role("button", name="Download trace").click()
        assert download.value.suggested_filename == f"{strategy}-seed{trace.seed}.json"
        shot(alone, f"page_{strategy}")


@pytest.mark.nightly
def test_a_page_plays_its_run(browser, tmp_path):
    trace = gallery.open_entry(FIRST["sampling"].file)
    path = page(trace).save(tmp_path / "run.html")
    assert path.stat().st_size < 1_000_000
    with watched(browser) as alone:
        alone.goto(path.as_uri())
        label, tokens = alone.locator(".pl-bar output"), alone.locator(".dp-tok[data-step]")
        expect(label).to_have_text("60 of 60 steps")
        alone.get_by_role("button", name="To the start").click()
        expect(tokens).to_have_count(0)
        alone.keyboard.press("ArrowRight")
        expect(tokens).to_have_count(1)
        alone.get_by_label("Speed").select_option("16")
        alone.get_by_role("button", name="▶ Play").click()
        expect(label).to_have_text("60 of 60 steps")
        expect(tokens).to_have_count(60)
        expect(view(alone, "chart").locator(".cv-curve")).to_have_count(3)
        alone.locator(".ab-all summary").click()
        expect(alone.locator(".ab-all")).to_contain_text("temperature")


@pytest.mark.nightly
def test_paper_shows_what_was_run_and_nothing_to_press(browser, tmp_path):
    trace = gallery.open_entry(FIRST["greedy"].file)
    with watched(browser) as alone:
        alone.goto(page(trace, dark=True).save(tmp_path / "run.html").as_uri())
        expect(view(alone, "chart").locator(".cv-curve")).to_have_count(2)
        alone.emulate_media(media="print")
        ink = alone.evaluate("getComputedStyle(document.querySelector('.dp-tok')).color")
        assert max(int(part) for part in ink[4:-1].split(",")) < 60
        for kept in ("about", "strip", "candidates", "chart"):
            expect(alone.locator(f".dp-v-{kept}")).to_be_visible()
        for gone in (".pg-play", ".dp-v-scrub .dp-btn", ".dp-v-scrub input"):
            expect(alone.locator(gone).first).to_be_hidden()


@pytest.mark.nightly
def test_a_notebook_shows_the_page(browser):
    trace = gallery.open_entry(FIRST["beam_search"].file)
    with watched(browser) as notebook:
        notebook.set_content(f"<!doctype html><body>{page(trace)._repr_html_()}</body>")
        look(notebook.frame_locator("iframe"), trace)


@pytest.mark.nightly
def test_a_dark_page_is_dark(browser, tmp_path):
    trace = gallery.open_entry(FIRST["greedy"].file)
    with watched(browser) as alone:
        alone.goto(page(trace, dark=True).save(tmp_path / "run.html").as_uri())
        look(alone, trace)
        ground = alone.evaluate("getComputedStyle(document.body).backgroundColor")
        assert max(int(part) for part in ground[4:-1].split(",")) < 60
        shot(alone, "page_dark")
