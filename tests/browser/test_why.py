"""Why in the browser: the token that was taken, a candidate, a typed token, a node; by mouse and key."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from engine.analysis import gallery
from engine.inspection.rerun import replay_to_step
from engine.inspection.why import explain_token
from engine.models.loading import load
from tests.helpers.pages import drawn, finish, fits, link, run_of, shot, status, trace_of, view


def card(page, strategy):
    return view(page.locator(f"#{strategy}-stage"), "why")


def sentence(page, strategy):
    return card(page, strategy).locator(".wy-sentence")


def step_shown(page, strategy, step):
    page.locator(f"#{strategy}-stage .dp-tok[data-step='{step}']").click()
    drawn(page, strategy)


def test_a_recorded_run_is_asked_about_a_candidate_and_a_typed_token(open_page):
    page = open_page("/")
    expect(status(page, "greedy")).to_contain_text("A recorded run")
    entry = next(e for e in gallery.list_entries() if e.strategy == "greedy")
    trace = gallery.open_entry(entry.file)
    step_shown(page, "greedy", 3)
    expect(card(page, "greedy").locator(".wy-title")).to_contain_text("at step 4")
    place = replay_to_step(trace, 3)
    other = trace.steps[3].candidates[4].token_id
    row = page.locator("#greedy-stage .cb-row").nth(4)
    row.hover()
    row.locator(".cb-why").click()
    expect(sentence(page, "greedy")).to_have_text(explain_token(place, other).sentence)
    expect(card(page, "greedy")).to_contain_text("Exact over the whole vocabulary")

    field = card(page, "greedy").get_by_label("Ask about another token")
    field.fill(" elephant")
    field.press("Enter")
    [token] = load(trace.model.id).tokenizer(" elephant", add_special_tokens=False)["input_ids"]
    expect(sentence(page, "greedy")).to_have_text(explain_token(place, token).sentence)
    facts = card(page, "greedy").locator("dd b")
    expect(facts).to_have_text([fact.value for fact in explain_token(place, token).facts])
    shot(card(page, "greedy"), "why")
    # Back to the token that was taken.
    card(page, "greedy").get_by_role("button", name=re.compile("^Why “")).press("Enter")
    expect(sentence(page, "greedy")).to_have_text(explain_token(place).sentence)
    # Another step has another answer.
    step_shown(page, "greedy", 1)
    expect(card(page, "greedy").locator(".wy-title")).to_contain_text("at step 2")


@pytest.mark.nightly
def test_a_run_that_has_ended_is_asked_about_the_step_it_shows_by_itself(open_page):
    """Of a custom method the tokens are there some time before the end: the text is read once more."""
    page = open_page(link("custom", "One day, a little boy found a", max_new_tokens=4))
    finish(page, "custom")
    step = run_of(page, "custom", "selected") + 1
    expect(card(page, "custom").locator(".wy-title")).to_contain_text(f"at step {step}")
    expect(card(page, "custom")).not_to_contain_text("When the run has ended")
    expect(card(page, "custom").get_by_role("button", name="Recompute this step")).to_have_count(0)


@pytest.mark.nightly
def test_a_node_of_a_search_is_asked_about_on_a_telephone(open_page):
    address = link("beam_search", "One day, a little boy found a", max_new_tokens=6, num_beams=3)
    page = open_page(address, width=390, height=844)
    finish(page, "beam_search")
    trace = trace_of(page, "beam_search")
    tree = page.locator("#beam_search-stage .dp-v-beam_tree")
    # Whichever node the tree opens on.
    step, node = tree.locator(".bt-node.sel").evaluate(
        "({ dpNode }) => [dpNode.column, dpNode.data.node_id]"
    )
    tree.locator("summary", has_text="Tree tools").click()
    tree.get_by_role("button", name=re.compile("^Why( not)?[?]$")).click()
    said = explain_token(replay_to_step(trace, step), node_id=node).sentence
    expect(sentence(page, "beam_search")).to_have_text(said)
    assert fits(page)


@pytest.mark.nightly
def test_a_run_that_continues_says_when_it_can_be_asked(open_page):
    page = open_page(link("greedy", "Once upon a time,", max_new_tokens=4))
    finish(page, "greedy")
    page.evaluate("playground.page.shown('greedy').status = 'running'")
    page.evaluate("playground.page.select(playground.page.shown('greedy'), 1)")
    expect(card(page, "greedy")).to_contain_text("When the run has ended")
    expect(card(page, "greedy").get_by_label("Ask about another token")).to_be_disabled()
