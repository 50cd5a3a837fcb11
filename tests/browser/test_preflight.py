"""Under the model field the page tells what a model is, before it is loaded."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from engine.sources.catalogue import MODEL_DIR
from tests.helpers.nightly import mark_nightly
from tests.helpers.pages import fits, open_settings, own_model, shot, show


@pytest.mark.parametrize("size", [{}, *mark_nightly([{"width": 390, "height": 900}])])
def test_a_model_that_somebody_names_is_reported_before_it_runs(open_page, size):
    page = open_page("/", **size)
    show(page, "greedy")
    open_settings(page, "greedy")
    field = page.locator("#greedy-model")
    field.get_by_role("button", name="Model details").click()
    expect(field.locator(".pf-facts")).to_contain_text("embedded in this playground")
    field.locator("select").select_option(label="Another…")
    expect(field.locator(".pf-facts")).to_be_hidden()
    own = own_model(field)
    own.fill(str(MODEL_DIR / "storyfixer"))
    own.press("Tab")
    expect(field.locator(".pf-facts")).to_contain_text("T5ForConditionalGeneration")
    expect(field.locator(".pf-facts")).to_contain_text("not DoLa")
    assert fits(page)
    shot(field, "preflight")
    # What is typed next is another model; the answer to the first is not shown any more.
    own.press("End")
    own.press_sequentially("-none")
    expect(field.locator(".pf-facts")).to_be_hidden()
    own.press("Tab")
    expect(field.get_by_role("status").last).to_contain_text("is not allowed: it must be a name")
