"""Branches in the browser: made from a click, by key and from typed text; opened, compared, saved."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from engine.analysis import gallery
from engine.analysis.fork import branch_point, make_branch
from engine.declare.config import config_to_dict
from engine.models.loading import load
from engine.strategies import STRATEGIES
from engine.trace import json_io
from tests.helpers.pages import drawn, finish, fits, run_id, shot, status, trace_of, view


def card(page, strategy="greedy"):
    return view(page.locator(f"#{strategy}-stage"), "family")


def members(page, strategy="greedy"):
    return card(page, strategy).locator(".fm-tree li")


def ended(page, strategy, count):
    """Wait until a family has so many runs, the last of them done."""
    expect(members(page, strategy)).to_have_count(count)
    finish(page, strategy)


def opened(page, step):
    """Click a token of the first tab; return when its candidates are shown."""
    page.locator(f"#greedy-stage .dp-tok[data-step='{step}']").click()
    expect(page.locator("#greedy-stage .dp-scrub output")).to_contain_text(f"Word {step + 1} of")
    drawn(page, "greedy")


def recorded(open_page, **size):
    """Return the page with the recorded run that is there before any model is loaded."""
    page = open_page("/", **size)
    expect(status(page, "greedy")).to_contain_text("A recorded run")
    entry = next(e for e in gallery.list_entries() if e.strategy == "greedy")
    return page, gallery.open_entry(entry.file)


def test_candidates_are_continued_by_mouse_by_key_and_with_typed_text(open_page):
    page, parent = recorded(open_page)
    parent_id = run_id(page, "greedy")
    own = parent.outputs[0].token_ids
    opened(page, 3)
    other = next(c.token_id for c in parent.steps[3].candidates if c.token_id != own[3])
    at = [c.token_id for c in parent.steps[3].candidates].index(other)
    page.locator("#greedy-stage .dp-v-candidates button.cb-name").nth(at).click()
    go = card(page).get_by_role("button", name="Continue", exact=True)
    expect(go).to_be_focused()
    expect(card(page).locator(".fm-chip b")).to_have_text(parent.pieces[other].replace("\n", "⏎"))
    go.click()
    ended(page, "greedy", 2)
    first, first_id = trace_of(page, "greedy"), run_id(page, "greedy")
    place = branch_point(parent, 3, run_id=parent_id)
    made = make_branch(place, token_id=other)
    assert (first.prompt_ids, first.parent) == (made.input_ids, made.parent)
    # The parent was recorded before some parameters were there.
    assert first.config == {**config_to_dict(STRATEGIES["greedy"].config()), **parent.config}

    # The keyboard alone: choose a candidate's button, continue with Enter.
    opened(page, 2)
    page.locator("#greedy-stage .dp-v-candidates button.cb-name").nth(2).focus()
    page.keyboard.press("Enter")
    expect(go).to_be_focused()
    page.keyboard.press("Enter")
    ended(page, "greedy", 3)
    second = trace_of(page, "greedy")
    assert (second.parent.run_id, second.parent.step) == (first_id, 2)

    members(page).first.locator(".fm-open").click()
    opened(page, 4)
    card(page).get_by_label("Text to continue with").fill(" and the dragon")
    page.keyboard.press("Enter")
    ended(page, "greedy", 4)
    third = trace_of(page, "greedy")
    tokenizer = load(parent.model.id).tokenizer
    typed = make_branch(
        branch_point(parent, 4, run_id=parent_id), text=" and the dragon", tokenizer=tokenizer
    )
    assert (third.prompt_ids, third.parent) == (typed.input_ids, typed.parent)
    expect(page.locator("#greedy-stage .dp-added")).to_have_text(" and the dragon")

    boxes = card(page).get_by_role("checkbox")
    boxes.nth(0).check()
    boxes.nth(1).check()
    card(page).get_by_role("button", name="Compare the two").click()
    expect(card(page).locator(".cmp-summary")).to_contain_text("The first 3 tokens are the same")
    expect(card(page).locator(".fm-text b")).to_have_text(
        [parent.pieces[own[3]], parent.pieces[other]]
    )
    shot(card(page), "family")
    members(page).first.locator(".fm-open").press("Enter")
    expect(status(page, "greedy")).to_contain_text("A recorded run")
    with page.expect_download() as download:
        members(page).nth(1).get_by_role("button", name="Save the trace").click()
    assert json_io.load(download.value.path()) == first


@pytest.mark.nightly
def test_a_branch_with_another_strategy_opens_its_tab_and_a_node_is_continued(open_page):
    page, parent = recorded(open_page)
    opened(page, 2)
    card(page).locator(".fm-settings > summary").click()
    card(page).get_by_label("Strategy of branch").select_option("beam_search")
    card(page).locator("[data-param=max_new_tokens]").fill("5")
    card(page).get_by_role("button", name="Continue", exact=True).click()
    expect(page.locator("#beam_search-run")).to_be_visible()
    ended(page, "beam_search", 2)
    beams, beams_id = trace_of(page, "beam_search"), run_id(page, "beam_search")
    assert beams.config["max_new_tokens"] == 5
    assert beams.prompt_ids[: len(parent.prompt_ids) + 2] == (
        *parent.prompt_ids,
        *parent.outputs[0].token_ids[:2],
    )

    node = page.locator("#beam_search-stage .bt-node").nth(1)
    node.focus()
    page.keyboard.press("Enter")
    page.locator("#beam_search-stage summary", has_text="Tree tools").click()
    page.locator("#beam_search-stage .bt-continue").first.click()
    expect(card(page, "beam_search").locator(".fm-go")).to_be_focused()
    page.keyboard.press("Enter")
    ended(page, "beam_search", 3)
    forked = trace_of(page, "beam_search")
    pool = {n.token_id: n for n in beams.steps[forked.parent.step].detail.pool}
    chosen = pool[forked.parent.token_ids[0]]
    place = branch_point(beams, forked.parent.step, node_id=chosen.node_id, run_id=beams_id)
    assert forked.prompt_ids == make_branch(place, token_id=chosen.token_id).input_ids

    members(page, "beam_search").first.locator(".fm-open").click()
    expect(page.locator("#greedy-run")).to_be_visible()
    expect(members(page)).to_have_count(3)


@pytest.mark.nightly
def test_what_cannot_be_continued_is_said_in_place(open_page):
    page, _ = recorded(open_page)
    card(page).locator(".fm-settings > summary").click()
    card(page).get_by_label("Seed of the branch").fill("-1")
    card(page).get_by_role("button", name="Continue", exact=True).click()
    expect(card(page).locator(".dp-status.bad")).to_contain_text("seed = -1")
    expect(status(page, "greedy")).to_contain_text("A recorded run")


@pytest.mark.nightly
def test_on_a_telephone(open_page):
    page, _ = recorded(open_page, width=390, height=900)
    opened(page, 3)
    page.locator("#greedy-stage button.cb-name").nth(1).click()
    expect(card(page).locator(".fm-go")).to_be_focused()
    page.keyboard.press("Enter")
    ended(page, "greedy", 2)
    assert fits(page)
    shot(card(page), "family_phone")
