"""The page in another language: what is read there, and that what models and people wrote stays as it is."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from engine.messages import PLACEHOLDER
from playground.i18n.languages import client_catalogue, server_catalogue, spec_catalogue
from tests.helpers.pages import fits, shot, status, tokens

GERMAN = client_catalogue("de")


def english_forms():
    """Yield a pattern of each English sentence with values that German says otherwise."""
    for english, german in server_catalogue("de").items():
        fixed = PLACEHOLDER.split(english)[::2]
        if (
            len(fixed) > 1
            and english != german
            and len(re.findall("[A-Za-z]{2,}", "".join(fixed))) > 2
        ):
            yield re.compile(".+?".join(map(re.escape, fixed)), re.DOTALL)


ENGLISH = tuple(english_forms())
TABS = ("sampling", "dola", "speculative", "watermark", "custom", "compare", "taste")
# Texts of three words or more that a reader meets, apart from what models and people wrote.
READ = """() => {
  const own = 'script, style, textarea, option, pre, code, cite, svg, .t, .dp-tok, .dp-text, .dp-strip, .tt-text';
  const found = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.data.trim();
    if (!walker.currentNode.parentElement.closest(own)) found.add(text);
  }
  for (const name of ['title', 'aria-label', 'placeholder'])
    for (const node of document.querySelectorAll(`[${name}]:not(.dp-tok, .t)`)) found.add(node.getAttribute(name));
  return [...found].filter((text) => text.split(/\\s+/).length > 2);
}"""
OPEN = """() => {
  for (const one of document.querySelectorAll('.dp-about details, .dp-settings details')) one.open = true;
}"""


@pytest.fixture
def german(open_page):
    def opener(path: str, **size: int):
        return open_page(f"{path}{'&' if '?' in path else '?'}lang=de", **size)

    return opener


@pytest.mark.nightly
@pytest.mark.parametrize("tab", ["beam_search", *TABS])
def test_nothing_that_has_german_words_is_read_in_english(german, tab):
    page = german(f"/?tab={tab}")
    expect(page.locator("html")).to_have_attribute("lang", "de")
    if tab not in ("compare", "taste"):
        expect(status(page, tab)).to_contain_text("Ein aufgezeichneter Lauf")
        expect(tokens(page, tab).first).to_be_visible()
    page.evaluate(OPEN)
    words = {**spec_catalogue("de"), **server_catalogue("de"), **GERMAN}
    read = page.evaluate(READ)
    assert len(read) > 20
    assert [text for text in read if words.get(text, text) != text] == []
    assert [text for text in read if any(form.fullmatch(text) for form in ENGLISH)] == []
    assert any(text in GERMAN.values() for text in read)
    assert fits(page)
    shot(page, f"german-{tab}")


def test_a_run_and_what_is_refused_are_reported_in_german(german):
    page = german("/?tab=greedy")
    page.locator("#greedy-prompt-input").fill("")
    page.locator("#greedy-run").click()
    expect(status(page, "greedy")).to_contain_text("ist nicht erlaubt")
    page.locator("#greedy-prompt-input").fill("The end of the story is that")
    page.locator("#greedy-run").click()
    expect(status(page, "greedy")).to_contain_text("Fertig")
    # What the model wrote is what it wrote.
    text = page.evaluate("playground.page.shown('greedy').outputs[0].text")
    written = "".join(tokens(page, "greedy").all_text_contents())
    assert text.split()[0] in written


@pytest.mark.nightly
def test_the_bench_tells_its_verdict_in_german(german):
    page = german("/?tab=watermark_bench")
    verdict = page.locator(".wm-verdict").first
    expect(verdict).to_contain_text("liegt über der Schwelle")
    expect(page.locator("#tab-watermark_bench")).to_contain_text("dieser Schlüssel")
    assert float(verdict.get_attribute("data-z")) > 3
