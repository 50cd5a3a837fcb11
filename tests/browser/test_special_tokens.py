"""A prompt that spells special tokens: the choice how they are read, what it becomes, and the run."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.helpers.nightly import mark_nightly
from tests.helpers.pages import address, fits, run, settled, shot, trace_of

END = "<|endoftext|>"
TEXT = "Read as text"
PROMPT = f"One day.{END}One day"
RUNS = (
    "playground.page.stages.filter(s => s.strategy.startsWith('compare-') && s.root.isConnected)"
    ".map(s => playground.page.shown(s.strategy))"
)
SIZES = [{"width": 1440, "height": 900}, {"width": 390, "height": 844}]


def write(page, prompt, tab="greedy"):
    """Type a prompt into a tab and return its choice."""
    area = page.locator(f"#{tab}-prompt-input")
    if not area.is_visible():
        page.locator(f"#tab-{tab} .dp-fold").click()
    area.fill(prompt)
    return page.locator(f"#{tab}-prompt .sp-box")


@pytest.mark.nightly
def test_a_prompt_with_special_tokens_offers_the_choice_and_its_run_follows_it(open_page):
    page = open_page("/")
    box = write(page, PROMPT)
    own = box.get_by_role("button", name="Read as tokens")
    expect(own).to_have_attribute("aria-pressed", "true")
    expect(box).to_contain_text(f"It spells “{END}” and becomes 6 tokens:")
    assert box.locator(".sp-special").all_text_contents() == [END]
    run(page, "greedy")
    trace = trace_of(page, "greedy")
    assert trace.prompt_ids == (449, 375, 14, 0, 449, 375)
    assert any("reads it as this token" in note for note in trace.notes)
    expect(page.locator("#greedy-stage .dp-v-since")).to_have_text("")

    box.get_by_role("button", name=TEXT).click()
    expect(box).to_contain_text("becomes 14 tokens:")
    assert box.locator(".sp-special").count() == 0
    expect(page.locator("#greedy-stage .dp-v-since")).to_contain_text("off → text")
    run(page, "greedy")
    assert trace_of(page, "greedy").literal_tokens == 1
    # A link to the run brings the choice along.
    page = open_page(f"/?{urlsplit(address(page, 'special_tokens')).query}")
    again = page.locator("#greedy-prompt .sp-box")
    expect(again.get_by_role("button", name=TEXT)).to_have_attribute("aria-pressed", "true")

    # A prompt without any has no choice to make.
    write(page, "One <b>day</b>")
    expect(again).to_be_hidden()


@pytest.mark.nightly
def test_every_column_of_a_comparison_reads_the_prompt_alike(open_page):
    page = open_page("/?tab=compare")
    write(page, PROMPT, "compare").get_by_role("button", name=TEXT).click()
    page.get_by_role("button", name="Run all").click()
    expect(page.locator(".cmp-table")).to_be_visible()
    literal = page.evaluate(f"{RUNS}.map(run => playground.page.trace(run).literal_tokens)")
    assert len(literal) > 1
    assert set(literal) == {1}


@pytest.mark.parametrize("size", [SIZES[1], *mark_nightly([SIZES[0]])], ids=str)
@pytest.mark.parametrize("language", ["de", *mark_nightly(["en"])])
def test_the_choice_fits_and_speaks_german(open_page, size, language):
    page = open_page(f"/?lang={language}", **size)
    box = write(page, f"<s>user\nWhat?{END}\n{END}assistant\n" * 3)
    title = {"de": "Besondere Tokens im Prompt", "en": "Special tokens in the prompt"}[language]
    expect(box).to_contain_text(title)
    assert fits(page)
    settled(page)
    box.scroll_into_view_if_needed()
    shot(page, f"special-{size['width']}-{language}")
