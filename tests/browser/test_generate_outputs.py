"""transformers' outputs in the browser: chosen, their size read, downloaded and read, refused, stopped."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from engine.analysis.generate_outputs import rerun_generate
from engine.analysis.generate_outputs_files import load_output
from tests.helpers.pages import finish, fits, link, shot, trace_of, view
from tests.helpers.rich import differs

pytestmark = pytest.mark.nightly

SIZES = {"wide": {}, "390": {"width": 390, "height": 844}}


def opened(open_page, strategy, size=None, suffix="", **params):
    page = open_page(link(strategy, "Once upon a", suffix, **params), **(size or {}))
    finish(page, strategy)
    card = view(page.locator(f"#{strategy}-stage"), "export")
    expect(card.locator(".ex-size")).not_to_be_empty()
    return page, card


def download(card):
    return card.get_by_role("button", name="Download", exact=True)


@pytest.mark.parametrize("size", ["390", "wide"])
def test_what_is_chosen_is_sized_downloaded_and_read(open_page, size):
    page, card = opened(open_page, "beam_search", SIZES[size], max_new_tokens=24, num_beams=3)
    told = card.locator(".ex-size")
    before = told.inner_text()
    for name in ("Hidden states", "Attentions"):
        card.get_by_label(name).check()
    expect(told).not_to_have_text(before)
    expect(told).to_contain_text("MB")
    expect(download(card)).to_be_enabled()
    about = told.inner_text().removeprefix("About ").removesuffix(" MB")
    with page.expect_download() as saved:
        download(card).click()
    assert saved.value.suggested_filename == "beam_search-seed0.safetensors"
    path = Path(saved.value.path())
    large = f"{path.stat().st_size / 1e6:.1f} MB"
    assert float(about) == pytest.approx(path.stat().st_size / 1e6, abs=0.2)
    expect(told).to_have_text(f"Saved beam_search-seed0.safetensors, {large}.")
    flags = {"output_hidden_states": True, "output_attentions": True}
    theirs = rerun_generate(trace_of(page, "beam_search"), **flags)
    assert differs(load_output(path), theirs) == []
    assert fits(page)
    shot(page, f"rich-{size}")


def test_in_the_dark(open_page):
    page, card = opened(open_page, "greedy", suffix="&__theme=dark", max_new_tokens=6)
    card.get_by_label("Logits").check()
    expect(card.locator(".ex-size")).to_contain_text("kB")
    expect(download(card)).to_be_enabled()
    shot(page, "rich-dark")


def test_what_there_is_none_of_says_why(open_page):
    page, card = opened(open_page, "contrastive_search", max_new_tokens=6)
    told = card.locator(".ex-size")
    expect(told).to_contain_text("moved it to transformers-community/contrastive-search")
    expect(download(card)).to_be_disabled()
    assert fits(page)
    shot(card, "rich-none")


def test_nothing_chosen_is_nothing_to_download(open_page):
    _, card = opened(open_page, "greedy", max_new_tokens=6)
    card.get_by_label("Scores").uncheck()
    expect(card.locator(".ex-size")).to_have_text("Choose at least one.")
    expect(download(card)).to_be_disabled()
    card.get_by_label("Logits").check()
    expect(download(card)).to_be_enabled()


def test_it_can_be_stopped(visit, here):
    from engine import load

    page, card = opened(visit, "greedy", max_new_tokens=6)
    halt = card.get_by_role("button", name="Stop", exact=True)
    expect(halt).to_be_hidden()
    with load("storyteller").lock:  # somebody else has the model
        download(card).click()
        expect(card.locator(".ex-size")).to_contain_text("Making the run again")
        expect(card.get_by_label("Scores")).to_be_disabled()
        halt.click()
        expect(card.locator(".ex-size")).to_have_text("Stopped.")
    expect(halt).to_be_hidden()
    with page.expect_download() as saved:
        download(card).click()
    assert len(load_output(saved.value.path()).scores) == 6
