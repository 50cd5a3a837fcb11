"""From a picture to its caption, and from a word of it to the parts of the picture that the model looked at."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from engine.media.examples import EXAMPLES_FOLDER
from tests.helpers.pages import fits, open_settings, run, settled, shot, show, trace_of
from tests.helpers.patience import PATIENCE_MS

SIDE = 6
"""Parts of a picture beside each other."""


@pytest.mark.nightly
@pytest.mark.parametrize(("width", "theme"), [(1440, "light"), (390, "dark")])
def test_a_word_of_a_caption_leads_to_what_the_model_looked_at(open_page, width, theme):
    page = open_page(f"/?__theme={theme}", width=width, height=900)
    show(page, "beam_search")
    open_settings(page, "beam_search")
    page.locator("#beam_search-model select").select_option("captioner")
    field = page.locator("#beam_search-image")
    # The file itself, as somebody would send it: what it is, the server has to see from its pixels.
    page.set_input_files("#beam_search-image-file", EXAMPLES_FOLDER / "scene-4.png")
    expect(field.locator("figcaption")).to_contain_text("96 × 96 pixels")
    run(page, "beam_search")
    trace = trace_of(page, "beam_search")
    words = [trace.pieces[i] for i in trace.outputs[0].token_ids]
    assert "".join(words[:-1]) == "A small red heart inside a big green triangle."
    stage = page.locator("#beam_search-stage")
    red = stage.locator(".dp-v-strip .dp-tok[data-step]").nth(words.index(" red"))
    red.focus()
    page.keyboard.press("Enter")
    stage.get_by_role("tab", name="Influence").press("Enter")
    stage.get_by_role("button", name="Attention", exact=True).press("Enter")
    cells = stage.locator(".lk-cell")
    expect(cells).to_have_count(SIDE * SIDE, timeout=PATIENCE_MS)
    # The heart lies in two parts of the fourth row.
    heart = [3 * SIDE + 3, 3 * SIDE + 2]
    expect(cells.nth(heart[0])).to_have_text("1")
    expect(cells.nth(heart[1])).to_have_text("2")
    cells.first.focus()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
    expect(cells.nth(heart[0])).to_be_focused()
    expect(stage.locator(".inf-place").first).to_have_text(
        cells.nth(heart[0]).get_attribute("title")
    )
    settled(page)
    shot(page, f"captioner-looked-{width}")
    assert fits(page)
