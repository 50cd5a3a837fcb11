"""Nothing is empty: what every tab opens with, what presets say, and which settings are not the run's."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from engine import STRATEGIES
from engine.analysis import examples, gallery
from tests.helpers.nightly import mark_nightly
from tests.helpers.pages import (
    choose_example,
    fill,
    finish,
    fits,
    open_recording,
    open_tab,
    run_id,
    run_of,
    shot,
    show,
    start,
    status,
    tokens,
    view,
)


def stage(page, strategy):
    return page.locator(f"#{strategy}-stage")


def say(page, strategy):
    """Return the sentence on what to look at, in its open panel."""
    return view(stage(page, strategy), "look").locator(".dp-hint")


def stale(page, strategy):
    return stage(page, strategy).locator(".dp-settings-changes")


def press(page, *tabs):
    """Open a tab as the page's own scripts do: on a telephone its button may stand behind another."""
    for tab in tabs:
        page.locator(f"#{tab}-button").first.dispatch_event("click")


def opened(page, strategy):
    """Wait until a tab shows its recorded run."""
    page.wait_for_function("key => playground.page.shown(key)?.entry", arg=strategy)


@pytest.mark.parametrize("width", [390, *mark_nightly([1440])])
def test_every_tab_opens_with_its_recorded_run_at_a_step_worth_seeing(open_page, width):
    page = open_page("/", width=width, height=900)
    for name, strategy in STRATEGIES.items():
        preset = strategy.presets[0]
        press(page, f"tab-{name}")
        expect(status(page, name)).to_contain_text("A recorded run")
        assert run_of(page, name, "selected") == preset.look_at - 1
        expect(tokens(page, name)).not_to_have_count(0)
        expect(stale(page, name)).to_be_hidden()
        expect(page.locator(f"#page-{name} .dp-menu")).to_contain_text(preset.shows)
        for visual in strategy.visuals:
            card = stage(page, name).locator(f".dp-v-{visual}")
            expect(card.locator("> .dp-empty"), f"{visual} of {name}").to_be_hidden()
        assert fits(page)
    press(page, "tab-compare")
    expect(page.locator(".dp-compare .dp-tok[data-step]")).to_have_count(4 * 40)
    expect(page.locator(".cmp-results .cmp-table")).to_be_visible()
    expect(page.locator(".cmp-lead")).to_have_text("The texts diverge at the very first token.")
    press(page, "tab-draws")
    expect(page.locator("#draws-tree .dp-status")).to_contain_text("A recorded example")
    expect(page.locator("#draws-tree .dp-costs")).to_contain_text(f"draws {examples.DRAWS_COUNT}")
    press(page, "tab-replay")
    first = gallery.list_entries()[0]
    expect(page.locator("#replay-player .pl-title")).to_have_text(first.title)
    expect(page.locator("#replay-player .dp-hint")).to_have_text(first.shows)
    press(page, "tab-watermark_bench")
    expect(page.locator("#wb-pair .wm-verdict.yes")).to_be_visible()
    expect(page.locator("#wb-judged .wm-verdict.yes")).to_be_visible()
    assert fits(page)


@pytest.mark.nightly
def test_a_preset_says_what_to_look_at_and_which_settings_it_changes(open_page):
    page = open_page("/")
    show(page, "sampling")
    opened(page, "sampling")
    box = page.locator("#page-sampling .dp-presets")
    for preset in STRATEGIES["sampling"].presets:
        expect(box).to_contain_text(preset.shows)
    hot = STRATEGIES["sampling"].presets[1]
    choose_example(page, "sampling", hot.name)
    expect(box.locator("[aria-pressed=true]")).to_have_text(hot.name)
    # It has a recorded run, which is shown; what it changed is marked.
    expect(say(page, "sampling")).to_have_text(hot.shows)
    assert run_of(page, "sampling", "selected") == hot.look_at - 1
    marks = page.locator("#page-sampling .f-mark:visible")
    expect(marks).to_have_count(3)
    page.get_by_role("button", name="Temperature: changed, back to 1", exact=True).click()
    expect(page.locator("#sampling-temperature input[type=number]")).to_have_value("1")
    expect(marks).to_have_count(2)
    # By hand, also in a group that is folded.
    group = page.locator("#page-sampling .f-group", has_text="Penalties")
    group.locator("summary").click()
    fill(page, "sampling-repetition_penalty", 1.2)
    expect(marks).to_have_count(3)
    expect(group.locator("summary")).to_contain_text("1 changed")
    shot(page.locator("#page-sampling .dp-settings"), "changed")


def test_the_page_says_when_the_settings_are_not_those_of_the_run(open_page):
    page = open_page("/")
    show(page, "sampling")
    opened(page, "sampling")
    expect(stale(page, "sampling")).to_be_hidden()
    fill(page, "sampling-temperature", 1.3)
    line = stale(page, "sampling")
    expect(line).to_have_text(
        "Settings have changed since this run: Temperature 0.5 → 1.3. Press Run to see it."
    )
    page.locator("#sampling-prompt textarea").fill("The cat")
    expect(line).to_contain_text("another prompt, Temperature 0.5 → 1.3.")
    fill(page, "sampling-max_new_tokens", 5)
    box = page.locator("#page-sampling .f-group", has_text="Tokens: ban, bias, force")
    box.locator("summary").click()
    page.locator("#sampling-bad_words_ids textarea").fill("dragon,  frog")
    before = start(page, "sampling")
    finish(page, "sampling", before)
    expect(line).to_be_hidden()
    expect(say(page, "sampling")).to_have_text(
        "This run has no hint. The examples under “Try” have one."
    )
    page.locator("#sampling-bad_words_ids textarea").fill('["dragon", "frog"]')
    expect(line).to_be_hidden()
    page.locator("#sampling-bad_words_ids textarea").fill("dragon")
    expect(line).to_contain_text("Ban")


@pytest.mark.nightly
def test_load_and_run_and_run_it_yourself(open_page):
    page = open_page("/")
    opened(page, "greedy")
    before = run_id(page, "greedy")
    choose_example(page, "greedy", "Load and run: Mend a sentence")
    finish(page, "greedy", before)
    mend = next(p for p in STRATEGIES["greedy"].presets if p.name == "Mend a sentence")
    assert run_of(page, "greedy", "prompt") == mend.prompt
    expect(say(page, "greedy")).to_have_text(mend.shows)
    again = stage(page, "greedy").get_by_role("button", name="Run it yourself")
    expect(again).to_be_hidden()
    # From the replay tab a run is made in the tab of its strategy.
    open_tab(page, "Replay")
    entry = gallery.find_entry("prompt_lookup-1")
    open_recording(page, entry)
    page.locator("#replay-player").get_by_role("button", name="Run it yourself").click()
    expect(page.locator("#prompt_lookup-run")).to_be_visible()
    finish(page, "prompt_lookup")
    trace = gallery.open_entry(entry.file)
    assert run_of(page, "prompt_lookup", "outputs")[0]["token_ids"] == list(
        trace.outputs[0].token_ids
    )
    expect(stale(page, "prompt_lookup")).to_be_hidden()
