"""How weights are held, on the page: chosen beside the model, told under it, carried by the address."""

from __future__ import annotations

import dataclasses
import json
from urllib.parse import parse_qs, urlparse

import pytest
from playwright.sync_api import expect

from engine.models import weights as holding
from tests.helpers.pages import (
    address,
    drawn,
    finish,
    fits,
    link,
    open_compare_settings,
    open_tab,
    run,
    run_id,
    shot,
    show,
    trace_of,
    unfold,
    view,
)
from tests.helpers.served import SERVED_HERE

pytestmark = [pytest.mark.nightly, *SERVED_HERE]
LIMITS = {"cpu": "20MB"}


def asked(page):
    return json.loads(parse_qs(urlparse(address(page, "bfloat16")).query)["params"][0])


def test_a_run_is_loaded_as_chosen_and_its_link_loads_it_so_again(open_page):
    page = open_page("/")
    show(page, "greedy")
    unfold(page, "greedy", "Weights", "dtype")
    model = page.locator("#greedy-model").bounding_box()
    assert page.locator("#greedy-dtype").bounding_box()["y"] > model["y"]
    page.locator("#greedy-dtype select").select_option("bfloat16")
    expect(page.locator("#page-greedy summary", has_text="Weights")).to_contain_text("1 changed")
    page.locator("#greedy-max_new_tokens input[type=number]").fill("5")
    run(page, "greedy")
    assert trace_of(page, "greedy").model.dtype == "bfloat16"
    expect(page.locator("#greedy-model .f-weights")).to_contain_text("uses bfloat16 on cpu.")
    assert asked(page)["dtype"] == "bfloat16"
    page.locator("#greedy-stage .dp-tok[data-step='1']").click()
    drawn(page, "greedy")
    page.locator("#greedy-stage .dp-v-candidates button.cb-name").nth(2).click()
    parent = run_id(page, "greedy")
    card = view(page.locator("#greedy-stage"), "family")
    card.get_by_role("button", name="Continue", exact=True).click()
    finish(page, "greedy", parent)
    assert trace_of(page, "greedy").parent.run_id == parent
    assert trace_of(page, "greedy").model.dtype == "bfloat16"


def test_a_link_holds_weights_as_it_says(open_page):
    page = open_page(link("greedy", "Once upon a", max_new_tokens=3, dtype="bfloat16"))
    finish(page, "greedy")
    assert trace_of(page, "greedy").model.dtype == "bfloat16"
    other = open_page(urlparse(address(page))._replace(scheme="", netloc="").geturl())
    finish(other, "greedy")
    assert trace_of(other, "greedy").outputs == trace_of(page, "greedy").outputs
    unfold(other, "greedy", "Weights", "dtype")
    expect(other.locator("#greedy-dtype select")).to_have_value("bfloat16")
    assert trace_of(other, "greedy").model.dtype == "bfloat16"


def test_a_control_that_needs_another_is_off_and_the_note_says_where_layers_are(open_page):
    page = open_page(
        link("greedy", "Once upon a", max_new_tokens=3, device_map="auto", max_memory=LIMITS),
        width=390,
    )
    finish(page, "greedy")
    assert trace_of(page, "greedy").model.weights.max_memory == LIMITS
    note = page.locator("#greedy-model .f-weights")
    expect(note).to_contain_text("uses float32; layers: 4 on cpu, 12 on disk.")
    unfold(page, "greedy", "Weights", "max_memory")
    limits, double = (
        page.locator(f"#greedy-{name} :is(textarea, input)")
        for name in ("max_memory", "bnb_4bit_use_double_quant")
    )
    expect(limits).to_have_value(json.dumps(LIMITS))
    expect(double).to_be_disabled()
    page.locator("#greedy-device_map select").select_option("")
    expect(limits).to_be_disabled()
    page.locator("#greedy-quantization select").select_option("4bit")
    expect(double).to_be_enabled()
    assert fits(page)
    shot(page, "weights")
    run(page, "greedy")
    assert trace_of(page, "greedy").model.weights.quantization == "4bit"
    assert trace_of(page, "greedy").model.weights.max_memory is None


def test_a_draft_model_has_its_own(open_page):
    page = open_page("/")
    show(page, "speculative")
    unfold(page, "speculative", "Weights", "assistant_dtype")
    page.locator("#speculative-assistant_dtype select").select_option("float16")
    run(page, "speculative")
    trace = trace_of(page, "speculative")
    assert (trace.model.dtype, trace.assistant.dtype) == ("float32", "float16")


def test_a_public_deployment_shows_what_it_offers(visit, monkeypatch):
    def offer(words):
        settings = dataclasses.replace(holding.SETTINGS, public=True, public_weights=words)
        monkeypatch.setattr(holding, "SETTINGS", settings)
        return visit("/")

    page = offer("")
    show(page, "speculative")
    expect(page.locator("#speculative-model")).to_be_visible()
    open_tab(page, "Compare")
    expect(page.locator(".cmp-column")).to_have_count(4)
    open_compare_settings(page)
    expect(page.locator("summary", has_text="More parameters").first).to_be_visible()
    # Neither a group without controls nor a word in its place.
    expect(page.locator("summary", has_text="Weights")).to_have_count(0)
    assert "null" not in page.locator(".cmp-form").first.inner_text()
    page = offer("4bit")
    show(page, "greedy")
    unfold(page, "greedy", "Weights", "quantization")
    group = page.locator("#page-greedy .f-group", has_text="Weights")
    assert group.locator(".f-field").count() == 1
    assert group.locator("option").all_text_contents() == ["off", "4bit"]
