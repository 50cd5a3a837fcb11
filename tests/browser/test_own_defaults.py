"""A model's own settings stand beside the defaults, are taken over by one press, and every value says whose it is."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.helpers.axe import grave
from tests.helpers.models import with_settings
from tests.helpers.pages import (
    fill,
    fits,
    open_settings,
    own_model,
    run,
    run_of,
    settled,
    shot,
    show,
)

pytestmark = pytest.mark.nightly

FIELDS = {
    "do_sample": True,
    "temperature": 0.6,
    "top_k": 50,
    "top_p": 0.95,
    "repetition_penalty": 1.1,
    "max_length": 4096,
    "eos_token_id": 1,
}


@pytest.fixture
def folder(tmp_path):
    return with_settings(tmp_path / "model", FIELDS)


def choose(page, strategy, folder):
    """Name a folder as the model of a tab; return where its own settings are shown."""
    show(page, strategy)
    open_settings(page, strategy)
    page.locator(f"#{strategy}-model-input").select_option(label="Another…")
    own = own_model(page.locator(f"#{strategy}-model"))
    own.fill(folder)
    own.press("Tab")
    return page.locator(f"#{strategy}-own")


def badge(page, name):
    return page.locator(f"#sampling-{name} .f-mark")


def value(page, name):
    return page.locator(f"#sampling-{name} input[type=number]")


def test_the_models_values_are_shown_and_taken_over_by_one_press(open_page, folder):
    page = open_page("/")
    own = choose(page, "sampling", folder)
    rows = own.locator("tbody tr")
    expect(rows).to_have_count(3)
    expect(own.locator("tr[data-param=temperature]")).to_have_text("Temperature0.61")
    expect(own).to_contain_text("1 setting more: the same as the defaults here.")
    expect(own).to_contain_text("Nothing of this is used unless you press the button.")
    # Nothing was taken over in silence.
    before = value(page, "temperature").input_value()
    assert before != "0.6"
    fill(page, "sampling-max_new_tokens", 6)
    own.get_by_role("button", name="Use the model's values", exact=True).click()
    expect(value(page, "temperature")).to_have_value("0.6")
    expect(value(page, "top_p")).to_have_value("0.95")
    # What the model says nothing of stays as it was.
    expect(value(page, "max_new_tokens")).to_have_value("6")
    expect(own.get_by_role("button", name="Use the model's values", exact=True)).to_be_disabled()
    own.locator("summary").click()
    expect(own.locator("li")).to_have_text(
        ["max_length = 4096 counts the prompt, too; set max_new_tokens."]
    )
    run(page, "sampling")
    config = run_of(page, "sampling", "config")
    assert (config["temperature"], config["top_p"]) == (0.6, 0.95)
    assert config["repetition_penalty"] == 1.1
    shot(page.locator("#page-sampling .dp-settings"), "own-settings")


def test_every_value_says_whether_it_is_the_default(open_page, folder):
    page = open_page("/")
    own = choose(page, "sampling", folder)
    expect(badge(page, "temperature")).to_have_text("changed · reset")
    expect(badge(page, "top_p")).to_be_hidden()
    own.get_by_role("button", name="Use the model's values", exact=True).click()
    expect(badge(page, "top_p")).to_be_visible()
    fill(page, "sampling-top_p", 0.5)
    # The press is there again, and brings back the model's.
    own.get_by_role("button", name="Use the model's values", exact=True).click()
    expect(value(page, "top_p")).to_have_value("0.95")
    page.get_by_role("button", name="Temperature: changed, back to 1", exact=True).click()
    expect(badge(page, "temperature")).to_be_hidden()
    # A group that was folded meanwhile knows it, too.
    page.locator("#page-sampling .f-group", has_text="Penalties").locator("summary").click()
    expect(badge(page, "repetition_penalty")).to_be_visible()


def test_a_strategy_names_the_fields_that_it_does_not_use(open_page, folder):
    page = open_page("/")
    own = choose(page, "greedy", folder)
    own.locator("summary").click()
    said = own.locator("li")
    expect(said).to_have_count(4)
    expect(said.first).to_contain_text("chooses Sampling, which is another strategy")
    expect(own.locator("tbody tr")).to_have_count(1)
    # Those of the repository ask for nothing, so there is nothing to show.
    page.locator("#greedy-model select").select_option(index=0)
    expect(own).to_be_hidden()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_settings_are_accessible_on_a_telephone(open_page, folder, theme):
    page = open_page(f"/?__theme={theme}", width=390, height=900)
    own = choose(page, "sampling", folder)
    expect(own.locator("tbody tr")).to_have_count(3)
    own.locator("summary").click()
    assert fits(page)
    settled(page)
    assert grave(page, "#page-sampling") == []
    shot(own, f"own-settings-390-{theme}")
