"""The form of a tab: what it asks for as it opens, and how its controls, presets and models fill it."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from engine.declare.params import defaults_of, params_of
from engine.declare.weights import weights_params
from engine.strategies import STRATEGIES
from playground.forms.form import form_request
from tests.helpers.nightly import mark_nightly
from tests.helpers.pages import choose_example, fill, run, run_of, show, status, unfold


@pytest.mark.nightly
def test_opened_settings_change_nothing(open_page):
    page = open_page()
    run(page, "greedy")
    before = run_of(page, "greedy", "config")
    for group, name in (
        ("Length and stopping", "max_time"),
        ("Penalties", "no_repeat_ngram_size"),
        ("Tokens: ban, bias, force", "bad_words_ids"),
        ("Guidance", "guidance_scale"),
    ):
        unfold(page, "greedy", group, name)
    run(page, "greedy")
    assert run_of(page, "greedy", "config") == before


@pytest.mark.parametrize(
    "strategy", ["custom", *mark_nightly(name for name in STRATEGIES if name != "custom")]
)
def test_an_untouched_form_asks_for_its_first_preset(same_page, strategy):
    page = same_page()
    show(page, strategy)
    # Also with every group of settings open.
    page.evaluate(
        "name => { for (const box of document.querySelectorAll(`#page-${name} .f-group`)) box.open = true; }",
        strategy,
    )
    declared = STRATEGIES[strategy]
    kinds = params_of(declared.config)
    # Those of the prompt are a choice at the prompt, shown if it matters.
    shown = {name for name, kind in kinds.items() if kind.group != "prompt"}
    fields = {*shown, *weights_params(declared.assistant != "none"), "seed"}
    controls = page.locator(f"#page-{strategy} [data-param]")
    expect(controls).to_have_count(len(fields))
    assert set(controls.evaluate_all("all => all.map((field) => field.dataset.param)")) == fields
    # The arguments of a custom method are controls within the one that stands for all of them.
    own = ".f-help:not([role=status], .me-arguments .f-help)"
    helped = page.locator(f"#page-{strategy} .f-field[id]:has([data-param]) {own}")
    assert controls.count() == helped.count()
    asked = page.evaluate("name => playground.page.tabOf(name).ask()", strategy)
    preset = declared.presets[0]
    request = form_request(asked)
    assert {n: kinds[n].check(n, v) for n, v in request.params.items()} == {
        n: kinds[n].check(n, v)
        for n, v in preset.params.items()
        if kinds[n].check(n, v) != defaults_of(declared.config)[n]
    }
    assert (request.prompt, request.seed) == (preset.prompt, preset.seed)
    assert request.model == (preset.model or declared.default_model)
    assert request.assistant == declared.default_assistant


@pytest.mark.nightly
def test_a_slider_and_its_number_are_one(open_page):
    page = open_page()
    show(page, "sampling")
    box = page.locator("#sampling-temperature")
    box.get_by_role("spinbutton", name="Temperature").fill("0.5")
    slider = box.get_by_role("slider")
    expect(slider).to_have_value("0.5")
    slider.focus()
    slider.press("ArrowRight")
    value = page.evaluate("playground.page.tabOf('sampling').ask().params.temperature")
    assert value > 0.5
    expect(box.get_by_role("spinbutton")).to_have_value(str(value))
    # A value beyond the slider's end is still a value.
    fill(page, "sampling-max_new_tokens", 400)
    assert page.evaluate("playground.page.tabOf('sampling').ask().params.max_new_tokens") == 400


def test_a_preset_fills_the_form_and_another_model_can_be_named(open_page):
    page = open_page()
    show(page, "sampling")
    preset = STRATEGIES["sampling"].presets[1]
    choose_example(page, "sampling", preset.name)
    asked = page.evaluate("playground.page.tabOf('sampling').ask()")
    assert asked["prompt"] == preset.prompt
    assert asked["params"]["temperature"] == preset.params["temperature"]
    box = page.locator("#sampling-model")
    box.get_by_label("Model", exact=True).select_option(label="Another…")
    box.get_by_role("textbox", name="Model: hub id or folder").fill("/no/such/model")
    page.locator("#sampling-run").click()
    expect(status(page, "sampling")).to_contain_text("/no/such/model")
