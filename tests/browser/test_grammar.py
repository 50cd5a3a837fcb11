"""A person writes a wrong grammar and reads what is wrong, and runs one and sees what it did to the text."""

from __future__ import annotations

import json

from playwright.sync_api import expect

from tests.helpers.grammars import CHOICE, PROMPT
from tests.helpers.pages import finish, fits, link, shot, unfold, view


def test_a_wrong_grammar_names_its_line_and_the_reason(open_page):
    page = open_page("/")
    unfold(page, "greedy", "Tokens", "structured_outputs")
    field = page.locator("#greedy-structured_outputs")
    typed = field.locator("textarea")
    typed.fill(json.dumps({"grammar": 'start: a\na: "x" b\nb: missing'}))
    answer = field.locator(".f-help[role=status]")
    expect(answer).to_contain_text("line 3")
    expect(answer).to_contain_text("missing")
    expect(typed).to_have_attribute("aria-invalid", "true")
    shot(page, "grammar-wrong-1440")
    # An example takes its place, and can be used.
    field.get_by_role("button", name="Pattern").click()
    expect(answer).to_have_text("This can be used. A text begins with a space.")
    expect(typed).to_have_attribute("aria-invalid", "false")


def test_a_run_shows_what_its_grammar_did_and_compares_it_with_whole_texts(open_page):
    page = open_page(link("greedy", PROMPT, structured_outputs=CHOICE, max_new_tokens=12))
    finish(page, "greedy")
    found = view(page.locator("#greedy-stage"), "grammar")
    expect(found.locator(".gr-push")).to_contain_text("The grammar pushed hardest at")
    page.locator("#greedy-stage .dp-tok[data-step='1']").click()
    expect(found.locator(".gr-say")).to_contain_text("The model wanted")
    found.get_by_role("button", name="Compare with whole texts").press("Enter")
    expect(found.locator(".gt-finding")).to_contain_text("whole texts")
    rows = found.locator(".gt-table tbody tr")
    expect(rows).to_have_count(len(CHOICE["choice"]))
    expect(rows.filter(has_text="this run").locator(".gt-text")).to_have_text("big dog.")
    expect(found.locator(".gt-valid")).to_contain_text("one of these 3 texts with probability")
    expect(found.locator(".gt-go")).to_be_hidden()
    shot(found, "grammar-texts-1440")
    page.set_viewport_size({"width": 390, "height": 844})
    assert fits(page)
    shot(found, "grammar-texts-390")
