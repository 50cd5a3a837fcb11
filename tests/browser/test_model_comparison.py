"""Another model beside a run in the browser: chosen, read, looked at token by token, saved, stopped."""

from __future__ import annotations

import csv
import json

import pytest
from playwright.sync_api import expect

from engine import load
from engine.analysis.score_with_other_model import compare_models
from tests.helpers.pages import finish, fits, link, run_id, shot, trace_of, view

pytestmark = pytest.mark.nightly


def opened(open_page, **size):
    page = open_page(link("greedy", "Once upon a time", max_new_tokens=12), **size)
    finish(page, "greedy")
    return page, view(page.locator("#greedy-stage"), "beside")


def hold(card, name, value):
    group = card.locator(".f-group")
    if group.get_attribute("open") is None:
        group.locator("summary").click()
    card.locator(f"[data-param={name}]").select_option(value)


def test_a_run_can_be_compared_with_its_model_at_fewer_bits(open_page):
    page, card = opened(open_page)
    hold(card, "quantization", "4bit")
    card.get_by_role("button", name="Read it with both").click()
    expect(card.locator(".bs-tok")).to_have_count(12)
    found = compare_models(
        trace_of(page, "greedy"), load("storyteller"), load("storyteller", quantization="4bit")
    )
    expect(card.locator(".bs-summary")).to_contain_text("Over 12 tokens the mean KL divergence is")
    parted = [a != b for a, b in zip(found.own.tops, found.other.tops, strict=True)]
    marked = card.locator(".bs-tok").evaluate_all("all => all.map((t) => !!t.querySelector('sup'))")
    assert marked == parted
    with page.expect_download() as saved:
        card.get_by_role("button", name="Everything (.json)").click()
    told = json.loads(saved.value.path().read_text("utf-8"))
    assert told["kl"] == list(found.kl)
    assert told["other"]["held"] == "4bit, float32"
    with page.expect_download() as saved:
        card.get_by_role("button", name="Tokens (.csv)").click()
    rows = list(csv.DictReader(saved.value.path().read_text("utf-8").splitlines()))
    assert [int(row["rank_beside"]) for row in rows] == list(found.other.ranks)
    card.locator(".bs-tok").nth(4).click()
    expect(page.locator("#greedy-stage .dp-scrub output")).to_contain_text("Word 5 of")
    expect(card.locator(".bs-status")).to_contain_text("rank")
    assert fits(page)
    shot(page, "beside")


def test_a_model_that_cannot_be_compared_says_why_and_the_next_can(open_page):
    page, card = opened(open_page, width=390, height=844)
    go = card.get_by_role("button", name="Read it with both")
    go.click()
    expect(card.get_by_role("status").first).to_contain_text(
        "the run's own model in the same number format"
    )
    card.locator(".f-model select").select_option("foreign-draft")
    go.click()
    expect(card.get_by_role("status").first).to_contain_text("has another tokenizer")
    card.locator(".f-model select").select_option("storyteller-draft")
    go.click()
    expect(card.locator(".bs-tok")).to_have_count(12)
    assert fits(page)
    shot(page, "beside-390")
    before = run_id(page, "greedy")
    page.locator("#greedy-run").click()
    finish(page, "greedy", before)
    expect(card.locator(".bs-tok")).to_have_count(0)
