"""The tune tab in the browser: a table is run, sorted, looked into, voted on, and there again after a reload."""

from __future__ import annotations

import json
import re
from urllib.parse import urlencode

from playwright.sync_api import expect

from engine.run.decoding import decode_to_trace
from engine.run.request import DecodeRequest
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


def test_a_blind_vote_shows_the_prompt_and_is_counted_in_the_table(open_page):
    length = {"max_new_tokens": 8}
    form = {
        "prompts": PROMPTS,
        "columns": [
            {"strategy": "greedy", "values": length, "name": "Surest"},
            {"strategy": "sampling", "values": {**length, "temperature": 2.0}, "name": "Warm"},
        ],
        "seeds": 1,
        "table": "a" * 32,
    }
    requests = (DecodeRequest("greedy", prompt=one, params=length) for one in PROMPTS.split("\n"))
    surest = {decode_to_trace(request).outputs[0].text for request in requests}
    page = open_page("/?" + urlencode({"tab": "tune", "form": json.dumps(form)}))
    tab = page.locator(".tn-tab")
    tab.get_by_role("button", name="Vote blind").click()
    pair, prompts = tab.locator(".tn-blind"), set()
    for number in (1, 2):
        expect(pair.locator(".ts-title")).to_have_text(re.compile(f"Pair {number} of 2"))
        prompts.add(pair.get_by_role("region", name="Prompt").text_content())
        sides = pair.locator(".ts-text > p").all_text_contents()
        [best] = [side for side, text in enumerate(sides) if text in surest]
        assert "Surest" not in pair.text_content()
        shot(page, f"tune-vote-{number}")
        if number == 1:
            page.keyboard.press(str(best + 1))
        else:
            pair.locator(".ts-vote").nth(best).click()
    assert prompts == set(PROMPTS.split("\n"))
    # The table is sorted by the votes: all are for greedy search, and too few to be sure.
    expect(tab.locator("[data-measure=votes]")).to_have_attribute("aria-pressed", "true")
    expect(tab.locator(".tn-table tbody tr").first).to_contain_text("Surest")
    expect(tab.locator(".tn-verdict")).to_have_text(
        "No clear preference: Surest was preferred to Warm in 2 of 2 votes (p = 0.50)."
    )
    expect(pair).to_be_hidden()
