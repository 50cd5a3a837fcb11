"""Every state of the page has an address: it follows what is seen, opens it again, and may be wrong."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlencode, urlparse

import pytest
from playwright.sync_api import expect

from engine.analysis import gallery
from tests.helpers.nightly import mark_nightly
from tests.helpers.pages import (
    address,
    drawn,
    finish,
    link,
    open_compare_settings,
    open_tab,
    run_of,
    select,
    shot,
    show,
    status,
    tokens,
    view,
)

RECORDINGS = """() => performance.getEntriesByType("resource").map((one) => one.name)
  .filter((name) => /sampling-[0-9]+[.]json$/.test(name))"""
LABEL = ".dp-scrub output"
BAD_LINKS = [
    ("trace=nope-1", "#greedy-stage", "it must be the name of a recording, such as"),
    ("strategy=greedy&step=x", "#greedy-stage", "steps are whole numbers from 1"),
    ("tab=nope", "#greedy-stage", "tab = 'nope' is not allowed"),
    ("strategy=greedy&ids=1.x&put=3", "#greedy-stage", "token ids with dots between them"),
    ("tab=compare&form=x", ".cmp-ask", "must be a JSON object"),
    ("tab=draws&form=x", "#draws-tree", "must be a JSON object"),
    ("tab=watermark_bench&form=x", "#page-watermark_bench", "must be a JSON object"),
    ("tab=replay&trace=nope", "#replay-player", "it must be the name of a recording"),
]


def query(page):
    return {name: values[0] for name, values in parse_qs(urlparse(address(page)).query).items()}


def at(page, **wanted):
    """Wait until the address says this."""
    page.wait_for_function(
        "wanted => { const q = new URLSearchParams(location.search);"
        " return Object.entries(wanted).every(([n, v]) => q.get(n) === v); }",
        arg=wanted,
    )


def relative(page, server):
    return address(page).removeprefix(server)


@pytest.mark.nightly
def test_the_address_follows_tab_run_and_step(open_page, server):
    page = open_page("/?__theme=dark")
    expect(tokens(page, "greedy")).not_to_have_count(0)
    assert query(page) == {"__theme": "dark", "tab": "greedy"}
    tokens(page, "greedy").nth(4).click()
    at(page, trace="greedy-1", step="5", __theme="dark")
    show(page, "sampling")
    at(page, trace="sampling-1", step="10")
    for tab, name in (("Compare", "compare"), ("Draws", "draws")):
        open_tab(page, tab)
        at(page, tab=name)
    open_tab(page, "Replay")
    at(page, tab="replay", trace="greedy-1")
    # Walking through a run quickly asks the browser for a few addresses, not for one a step.
    page.evaluate(
        "(() => { const replace = history.replaceState.bind(history); window.asked = 0;"
        " history.replaceState = (...all) => { window.asked += 1; replace(...all); }; })()"
    )
    show(page, "greedy")
    for step in range(60):
        select(page, "greedy", step)
    at(page, trace="greedy-1", step="60")
    assert page.evaluate("window.asked") < 40


@pytest.mark.nightly
def test_a_link_opens_a_recorded_run_at_a_step_and_run_repeats_it(open_page):
    page = open_page("/?trace=sampling-2&step=7")
    stage = page.locator("#sampling-stage")
    expect(stage.locator(LABEL)).to_have_text("Word 7 of 60")
    assert run_of(page, "sampling", "status") == "recorded"
    # No other recording comes first.
    assert {name.rpartition("/")[2] for name in page.evaluate(RECORDINGS)} == {"sampling-2.json"}
    expect(page.locator("#sampling-temperature input[type=number]")).to_have_value("1.6")
    expect(stage.locator(".dp-settings-changes")).to_be_hidden()
    shot(page, "link_recorded")
    page.locator("#sampling-run").click()
    finish(page, "sampling")
    trace = gallery.open_entry("sampling-2.json.gz")
    assert run_of(page, "sampling", "outputs")[0]["token_ids"] == list(trace.outputs[0].token_ids)
    # The address is now the request; as its run is recorded, it opens that.
    select(page, "sampling", 3)
    at(page, strategy="sampling", step="4")
    other = open_page("/?" + urlparse(address(page)).query)
    expect(other.locator("#sampling-stage").locator(LABEL)).to_have_text("Word 4 of 60")
    assert run_of(other, "sampling", "entry") == "sampling-2"


@pytest.mark.nightly
def test_a_request_that_is_not_recorded_is_run_and_opened_at_its_step(open_page):
    page = open_page(link("greedy", "Once upon a time", "&step=3", max_new_tokens=6))
    finish(page, "greedy")
    expect(page.locator("#greedy-stage").locator(LABEL)).to_have_text("Word 3 of 6")
    at(page, strategy="greedy", step="3")
    late = open_page(link("greedy", "Once upon a time", "&step=9", max_new_tokens=6))
    expect(status(late, "greedy")).to_contain_text("step = 9")


@pytest.mark.nightly
def test_a_branch_has_a_link(open_page, server):
    page = open_page("/?trace=greedy-1&step=4")
    stage = page.locator("#greedy-stage")
    expect(stage.locator(LABEL)).to_have_text("Word 4 of 60")
    drawn(page, "greedy")
    view(stage, "family").get_by_label("Text to continue with").fill(" castle by")
    page.keyboard.press("Enter")
    page.wait_for_function(
        "playground.page.shown('greedy').parent && playground.page.shown('greedy').status === 'finished'"
    )
    drawn(page, "greedy")
    first = run_of(page, "greedy", "outputs")[0]["token_ids"]
    at(page, at="4", text=" castle by")
    other = open_page(relative(page, server))
    finish(other, "greedy")
    assert run_of(other, "greedy", "outputs")[0]["token_ids"] == first
    assert run_of(other, "greedy", "parent")["text"] == " castle by"
    expect(other.locator("#greedy-stage .dp-added")).to_have_text(" castle by")


@pytest.mark.nightly
def test_comparisons_draws_and_the_bench_have_links(open_page, server):
    page = open_page("/?tab=compare")
    # The recorded comparison fills the form when it is there.
    expect(page.locator(".dp-compare .dp-strip")).to_have_count(4)
    page.locator(".dp-compare").get_by_label("Prompt", exact=True).fill("The cat")
    open_compare_settings(page)
    for field in page.locator(".dp-compare [data-param=max_new_tokens]").all():
        field.fill("4")
    page.get_by_role("button", name="Run all").click()
    expect(page.locator(".cmp-ask .dp-status")).to_have_text("Done.")
    at(page, tab="compare")
    form = json.loads(query(page)["form"])
    assert (form["prompt"], len(form["columns"])) == ("The cat", 4)
    assert form["columns"][0]["params"] == {"max_new_tokens": 4}
    other = open_page(relative(page, server))
    expect(other.locator(".cmp-ask .dp-status")).to_have_text("Done.")
    texts = "[...document.querySelectorAll('.dp-compare .dp-strip')].map((n) => n.textContent)"
    assert other.evaluate(texts) == page.evaluate(texts)

    params = {"max_new_tokens": 3}
    asked = {"prompt": "The cat", "seed": 3, "draws": 8, "params": params}
    page = open_page("/?" + urlencode({"tab": "draws", "form": json.dumps(asked)}))
    expect(page.locator("#draws-tree .dp-status")).to_contain_text("Done: 8 of 8 draws")
    expect(page.locator("#draws-seed input")).to_have_value("3")

    asked = {"prompt": "The cat", "text": "The cat sat on the mat.", "params": {"bias": 4}}
    page = open_page("/?" + urlencode({"tab": "watermark_bench", "form": json.dumps(asked)}))
    expect(page.locator("#wb-judged .wm-verdict")).to_be_visible()
    page.locator("#wb-text textarea").fill("The cat sat on the mat, and the dog sat there, too.")
    address(page, "the+dog")
    assert json.loads(query(page)["form"])["params"]["bias"] == 4


@pytest.mark.parametrize(
    ("search", "where", "says"),
    [
        ("trace=sampling-1&step=99", "#sampling-stage", "the run has steps 1 to 60"),
        *mark_nightly(BAD_LINKS),
    ],
)
def test_a_bad_link_is_answered_in_its_tab_in_a_sentence(open_page, search, where, says):
    page = open_page("/?" + search)
    expect(page.locator(where)).to_contain_text(says)
    if where.endswith("-stage"):
        # Beside what the tab opens with, which is still there.
        expect(page.locator(where).locator(".dp-tok[data-step]")).not_to_have_count(0)
