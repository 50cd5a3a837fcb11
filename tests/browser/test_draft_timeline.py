"""The draft timeline: live, scrubbed, by keyboard, on a telephone and from a saved trace."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.helpers.pages import finish, fits, link, run_of, select, shot, view

PARAMS = {
    "prompt_lookup": {"max_new_tokens": 40, "plain_run": True},
    "early_exit": {"max_new_tokens": 40, "assistant_early_exit": 8, "num_assistant_tokens": 4},
    "mtp": {"max_new_tokens": 40},
}
PROMPT = "Row, row, row your boat. Row, row, row your boat. Row, row,"


def decoded(open_page, strategy):
    """Follow a link, which runs the strategy; return the page and its finished timeline."""
    page = open_page(link(strategy, PROMPT, **PARAMS[strategy]))
    finish(page, strategy)
    return page, view(page.locator(f"#{strategy}-stage"), "draft_timeline")


@pytest.mark.nightly
@pytest.mark.parametrize("strategy", ["prompt_lookup", "early_exit", "mtp"])
def test_every_round_is_drawn_and_the_badge_tells_the_truth(same_page, strategy):
    page, timeline = decoded(same_page, strategy)
    steps = run_of(page, strategy, "steps")
    expect(timeline.locator(".dt-row")).to_have_count(len(steps))
    drafted = sum(len(step["detail"]["tokens"]) for step in steps)
    finals = sum(step["detail"]["final_source"] != "ended" for step in steps)
    expect(timeline.locator(".dt-lane .dt-tile")).to_have_count(drafted + finals)
    expect(timeline.locator(".dt-badge")).to_contain_text("Lossless")
    per_pass = sum(len(step["emit"]) for step in steps) / len(steps)
    expect(timeline.locator(".dt-cost")).to_contain_text(f"tokens per pass {per_pass:.2f}")
    shot(page, f"draft_timeline_{strategy}")


def test_scrubbing_marks_the_round_and_dims_what_comes_later(same_page):
    _, timeline = decoded(same_page, "early_exit")
    rounds = timeline.locator(".dt-row").count()
    timeline.get_by_role("button", name="Round 2,").click()
    expect(timeline.locator(".dt-row.sel")).to_have_count(1)
    expect(timeline.locator(".dt-row.later")).to_have_count(rounds - 2)
    expect(timeline.locator(".dt-round")).to_contain_text("Round 2.")
    timeline.locator(".dt-lane .dt-tile").first.focus()
    expect(timeline.locator(".dt-readout")).to_contain_text("main model's p =")
    timeline.get_by_text("Table of every drafted token").click()
    expect(timeline.locator(".dp-table tbody tr").first).to_be_visible()


@pytest.mark.nightly
def test_prompt_lookup_joins_a_copy_to_its_source(same_page):
    page, timeline = decoded(same_page, "prompt_lookup")
    page.set_viewport_size({"width": 390, "height": 840})
    steps = run_of(page, "prompt_lookup", "steps")
    select(page, "prompt_lookup", next(i for i, s in enumerate(steps) if s["detail"]["match"]))
    expect(timeline.locator(".dt-arc path")).to_have_attribute(
        "d", re.compile(r"^M[\d.]+,[\d.]+ C")
    )
    assert timeline.locator(".dt-arc .src").count() == timeline.locator(".dt-arc .dst").count()
    assert fits(page)
    shot(page, "draft_timeline_telephone")
