"""The tune tab in the browser: a table is run, sorted, looked into, and there again after a reload."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.helpers.pages import finish, fits, run_id, shot, trace_of

PROMPTS = "Once upon a time\nThe dragon opened the door and"


def test_a_table_is_run_sorted_opened_and_there_again_after_a_reload(open_page):
    page = open_page("/?tab=tune")
    tab = page.locator(".tn-tab")
    tab.locator("#tune-prompts").fill(PROMPTS)
    for _ in range(2):
        tab.locator(".tn-chips > button").last.click()
    tab.get_by_label("Seeds of each setting").fill("2")
    run = tab.locator("#tune-run")
    # Greedy search once for each prompt, two temperatures with both seeds.
    expect(run).to_have_text("Run 10 texts")
    run.click()
    rows = tab.locator(".tn-table tbody tr")
    expect(rows).to_have_count(3)
    expect(tab.locator("#tune-stop")).to_be_hidden()
    expect(tab.locator(".tn-cell u")).to_have_count(10)
    tab.get_by_role("button", name="Least surprising").click()
    expect(rows.first).to_contain_text("Greedy search")
    expect(tab.locator(".tn-verdict")).to_contain_text("Greedy search")
    page.reload()
    expect(rows).to_have_count(3)
    expect(tab.locator(".tn-cell u")).to_have_count(10)
    row = rows.filter(has_text="temperature 1")
    row.locator(".tn-cell").nth(1).click()
    drawer = tab.locator(".tn-drawer")
    expect(drawer.locator(".tn-text")).to_have_count(2)
    text = drawer.locator(".tn-text").nth(1)
    expect(text).to_contain_text("seed 1")
    written = text.evaluate("n => n.childNodes[2].textContent").strip()
    assert fits(page)
    shot(page, "tune")
    before = run_id(page, "sampling")
    text.get_by_role("button", name="Open in Explore").click()
    finish(page, "sampling", before)
    assert trace_of(page, "sampling").outputs[0].text.strip() == written
