"""The watermark in the browser: every token marked, the detector's numbers, the bench."""

from __future__ import annotations

import pytest
import torch
from playwright.sync_api import expect

from engine.analysis.watermark_detection import detect_trace
from tests.helpers.nightly import mark_nightly
from tests.helpers.pages import (
    fill,
    finish,
    fits,
    link,
    minus,
    open_tab,
    shot,
    show,
    trace_of,
    view,
)

PROMPT = "Once upon a time, there was a little girl named Lily. She"


def marked(open_page, suffix="", size=None, **params):
    values = {"max_new_tokens": 60, "bias": 4.0, **params}
    page = open_page(link("watermark", PROMPT, suffix, **values), **(size or {}))
    finish(page, "watermark")
    visual = view(page.locator("#watermark-stage"), "watermark")
    return page, visual, trace_of(page, "watermark")


@pytest.mark.parametrize(
    ("label", "params"),
    [
        ("lefthash", {}),
        *mark_nightly(
            [
                ("selfhash", {"seeding_scheme": "selfhash", "context_width": 3}),
                ("synthid", {"scheme": "synthid", "top_k": 0}),
            ]
        ),
    ],
)
def test_the_page_says_what_the_detector_says(open_page, label, params):
    page, visual, trace = marked(open_page, **params)
    found = detect_trace(trace)
    tokens = visual.locator(".wm-text .wm-tok")
    expect(tokens).to_have_count(len(found.ids))
    kinds = tokens.evaluate_all("nodes => nodes.map(n => n.classList[1])")
    for kind, mark in zip(kinds, found.marks, strict=True):
        colour = "bits" if mark.g_values else "green" if mark.is_green else "red"
        assert kind == (colour if mark.scored else "skip")
    numbers = visual.locator(".dp-costs")
    expect(numbers).to_contain_text(f"z {minus(found.verdict.z_score)}")
    expect(numbers).to_contain_text(f"{found.verdict.hits} of {found.verdict.trials}")
    p = float(visual.locator(".wm-verdict").get_attribute("data-p"))
    assert p == pytest.approx(found.verdict.p_value, rel=1e-3)
    expect(visual.locator(".wm-verdict")).to_contain_text(
        "Doubtful"
        if found.verdict.doubtful
        else "Marked"
        if found.verdict.prediction
        else "Not shown"
    )
    tokens.nth(3).click()
    expect(page.locator("#watermark-stage .dp-scrub output")).to_have_text(
        f"Word 4 of {len(found.ids)}"
    )
    expect(visual.locator(".wm-facts")).to_contain_text("counted")
    visual.locator("summary").click()
    expect(visual.locator("tbody tr")).to_have_count(len(found.ids))
    shot(visual, f"watermark_{label}")


@pytest.mark.nightly
def test_two_sequences_a_telephone_and_the_dark(open_page):
    page, visual, trace = marked(
        open_page, size={"width": 390, "height": 900}, num_return_sequences=2
    )
    assert fits(page)
    visual.locator("select").select_option("1")
    expect(visual.locator(".wm-text .wm-tok")).to_have_count(len(trace.outputs[1].token_ids))
    shot(visual, "watermark_phone")
    _, dark, _ = marked(open_page, suffix="&__theme=dark")
    shot(dark, "watermark_dark")


@pytest.mark.nightly
def test_the_bench_judges_as_words_are_replaced(open_page):
    page = open_page("/")
    show(page, "watermark")
    open_tab(page, "Bench")
    fill(page, "wb-bias", 5)
    fill(page, "wb-max_new_tokens", 50)
    page.locator("#wb-run").click()
    # Both texts grow in their cards first; the price comes when both are done.
    expect(page.locator("#wb-pair")).not_to_contain_text("A recorded pair")
    expect(page.locator("#wb-pair")).to_contain_text("perplexity ×")
    expect(page.locator("#wb-pair .wm-pair .dp-card")).to_have_count(2)
    verdict = page.locator("#wb-judged .wm-verdict")
    expect(verdict).to_contain_text("✓ Marked")
    before = float(verdict.get_attribute("data-z"))
    shot(page, "bench")
    page.locator("#wb-text textarea").fill(
        "The dog ran home and it was happy to see the boy again."
    )
    expect(verdict).to_contain_text("✗ Not shown")
    assert float(verdict.get_attribute("data-z")) < before
    device = page.get_by_label("Device the text was generated on", exact=True)
    device.select_option("cuda")
    refused = page.locator("#wb-judged .dp-status.bad")
    if not torch.cuda.is_available():
        expect(refused).to_contain_text("another device draws other lists")
    device.select_option("the model's own device")
    expect(verdict).to_contain_text("✗ Not shown")
    page.locator("#wb-text textarea").fill("a")
    expect(refused).to_contain_text("at least")
