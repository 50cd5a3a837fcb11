"""The tune tab in the browser: a table is run, sorted, looked into, voted on, and there again after a reload."""

from __future__ import annotations

import json
import re
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from engine.models.loading import load
from engine.run.decoding import decode_to_trace
from engine.run.request import DecodeRequest
from tests.helpers.axe import grave
from tests.helpers.llama_server import llama_of
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


@pytest.mark.nightly
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


@pytest.mark.nightly
def test_a_table_of_a_model_on_a_server_is_run_and_its_link_waits(open_page):
    with llama_of(load("storyteller")).serve() as server:
        page = open_page("/?tab=tune&__theme=dark")
        tab = page.locator(".tn-tab")
        fold = tab.locator(".tn-fold")
        if fold.get_attribute("open") is None:
            fold.locator("> summary").click()
        tab.locator("#tune-prompts").fill(PROMPTS)
        tab.locator("#tune-model-input").select_option(label="An address…")
        tab.get_by_label("Address").fill(server.base)
        tab.get_by_label("Model there").fill("m")
        tab.locator(".tn-add > summary").click()
        tab.locator(".tn-adding select").first.select_option("contrastive_search")
        tab.get_by_role("button", name="Add setting").click()
        refusal = "Setting 6: contrastive_search does not work"
        expect(tab.locator(".dp-status")).to_contain_text(refusal)
        for _ in range(2):
            tab.locator(".tn-chips > button").last.click()
        tab.get_by_label("Seeds of each setting").fill("1")
        expect(tab.locator(".tn-cost")).to_have_text("The server decides how long it takes.")
        expect(tab.locator("#tune-run")).to_have_text("Run 8 texts")
        tab.locator("#tune-run").click()
        expect(tab.locator(".tn-table tbody tr")).to_have_count(4)
        expect(tab.locator("#tune-stop")).to_be_hidden()
        expect(tab.locator(".dp-status")).to_have_text("")
        for width in (1440, 390):
            page.set_viewport_size({"width": width, "height": 844})
            assert fits(page)
            assert grave(page) == []
            shot(page, f"tune_server_{width}")
        link, asked = page.url, len(server.asked)
        page.reload()
        expect(tab.locator(".dp-status")).to_contain_text("Check the settings, then press Run.")
        expect(tab.get_by_label("Model there")).to_have_value("m")
        assert len(server.asked) == asked
        tab.locator("#tune-run").click()
        expect(tab.locator(".tn-table tbody tr")).to_have_count(4)
        # It is the same table, which goes on from what a journal has of it.
        assert page.url == link
