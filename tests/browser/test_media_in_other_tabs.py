"""What a model is given goes along: into a branch, into each column of a comparison, many draws and a saved page."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.helpers.pages import (
    give,
    name_model,
    open_compare_settings,
    open_tab,
    run,
    run_id,
    trace_of,
    with_model,
)
from tests.helpers.pictures import picture_file
from tests.helpers.seers import seer
from visualizers.page import page as drawn_page

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def eyes(tmp_path_factory):
    """Return the folder of a tiny model that reads a picture."""
    return seer(tmp_path_factory.mktemp("seer"))


def test_a_branch_continues_from_the_same_picture(open_page, eyes):
    page = with_model(open_page, eyes)
    give(page, picture_file(20, 20))
    run(page, "greedy")
    first = trace_of(page, "greedy")
    page.evaluate("playground.page.select(playground.page.shown('greedy'), 1)")
    stage = page.locator("#greedy-stage")
    stage.get_by_role("tab", name="Continue").click()
    before = run_id(page, "greedy")
    stage.locator(".fm-go").click()
    page.wait_for_function(
        "([before]) => playground.page.runId('greedy') !== before && "
        "['finished', 'failed'].includes(playground.page.shown('greedy')?.status)",
        arg=[before],
    )
    branch = trace_of(page, "greedy")
    assert branch.parent is not None
    assert branch.media == first.media


def test_compare_and_draws_give_it_to_every_model_that_takes_it(open_page, eyes):
    page = open_page("/?tab=draws")
    name_model(page, eyes, "draws")
    give(page, picture_file(20, 20), "draws")
    page.locator("#draws-draws input[type=number]").fill("4")
    page.locator("#draws-run").click()
    expect(page.locator("#draws-tree")).to_contain_text("4 of 4")
    open_tab(page, "Compare")
    columns = page.locator("#compare .cmp-column")
    expect(columns).to_have_count(4)
    open_compare_settings(page)
    for place in range(2):
        columns.nth(place).locator(".f-model select").first.select_option(label="Another…")
        typed = columns.nth(place).locator(".f-model input[type=text]").first
        typed.fill(eyes)
        typed.press("Tab")
    expect(page.locator("#compare-image")).to_be_visible()
    give(page, picture_file(20, 20), "compare")
    page.locator("#compare textarea.cmp-prompt").fill("Once")
    page.locator("#compare").get_by_role("button", name="Run all").click()
    expect(page.locator(".cmp-ask > .dp-status")).to_contain_text("Done.")
    read = page.evaluate(
        "[...playground.page.runs.values()].filter((r) => r.id && r.media?.length).map((r) => r.media[0].width)"
    )
    assert read.count(20) == 2


def test_a_saved_page_shows_what_the_model_was_given(open_page, eyes, tmp_path):
    page = with_model(open_page, eyes)
    give(page, picture_file(64, 48))
    run(page, "greedy")
    file = tmp_path / "run.html"
    drawn_page(trace_of(page, "greedy")).save(file)
    page.goto(file.as_uri())
    given = page.locator(".dp-v-media")
    expect(given.get_by_role("img")).to_be_visible()
    expect(given).to_contain_text("64 × 48 pixels")
