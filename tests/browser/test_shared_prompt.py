"""Changing the strategy keeps what was asked: the prompt, the model, the seed and the step of the same text."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.helpers.pages import fill, run, run_of, show, tokens

PROMPT = "The old dog found a red ball and"


def test_another_strategy_keeps_prompt_seed_and_step(open_page):
    page = open_page("/?tab=sampling")
    page.locator("#sampling-prompt-input").fill(PROMPT)
    fill(page, "sampling-seed", 7)
    fill(page, "sampling-max_new_tokens", 12)
    run(page, "sampling")
    show(page, "beam_sampling")
    expect(page.locator("#beam_sampling-prompt-input")).to_have_value(PROMPT)
    expect(page.locator("#beam_sampling-seed input")).to_have_value("7")
    # Its own settings stay as they were.
    expect(page.locator("#beam_sampling-max_new_tokens input[type=number]")).not_to_have_value("12")
    fill(page, "beam_sampling-max_new_tokens", 12)
    run(page, "beam_sampling")
    tokens(page, "beam_sampling").nth(4).click()
    show(page, "sampling")
    page.wait_for_function("playground.page.shown('sampling').selected === 4")
    # An example that nobody changed shows its own prompt.
    fresh = open_page("/?tab=sampling")
    show(fresh, "greedy")
    expect(fresh.locator("#greedy-prompt-input")).not_to_have_value("")
    assert run_of(fresh, "greedy", "prompt") == fresh.locator("#greedy-prompt-input").input_value()
