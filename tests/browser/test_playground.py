"""A visitor runs, watches, scrubs, stops, reloads and makes mistakes."""

from __future__ import annotations

import json
import time

import pytest
from playwright.sync_api import expect

from engine import STRATEGIES, trace_json
from playground.app import FAMILIES

TOKENS = "#{0}-stage .dp-tok[data-step]"


def tokens(page, strategy):
    return page.locator(TOKENS.format(strategy))


def show(page, strategy, title):
    """Open a strategy's tab: its family's first."""
    page.get_by_role("tab", name=FAMILIES[STRATEGIES[strategy].family], exact=True).first.click()
    # A family and a strategy may share their name; the strategy's tab comes later.
    page.get_by_role("tab", name=title, exact=True).last.click()
    expect(page.locator(f"#{strategy}-run")).to_be_visible()


def run(page, strategy):
    page.locator(f"#{strategy}-run").click()


def status(page, strategy):
    return page.locator(f"#{strategy}-stage .dp-v-status .dp-status")


def finish(page, strategy):
    expect(status(page, strategy)).to_contain_text("Done", timeout=60_000)


@pytest.mark.parametrize(
    ("strategy", "title"), [("greedy", "Greedy search"), ("sampling", "Sampling")]
)
def test_a_run_streams_and_draws(open_page, strategy, title):
    page = open_page()
    show(page, strategy, title)
    run(page, strategy)
    # Tokens are on the page while the run is still going on.
    page.wait_for_function(
        "name => { const run = DP.runs.get(DP.runId(name)); return run && run.status === 'running'"
        " && document.querySelectorAll('#' + name + '-stage .dp-tok[data-step]').length > 0; }",
        arg=strategy,
        timeout=60_000,
    )
    finish(page, strategy)
    expect(tokens(page, strategy)).to_have_count(60)
    stage = page.locator(f"#{strategy}-stage")
    expect(stage.locator(".dp-v-candidates .t")).to_have_count(21)
    expect(stage.locator(".dp-v-chart .scatterlayer .trace")).to_have_count(2)
    expect(stage.locator(".dp-costs")).to_contain_text("forward passes 60")
    if strategy == "sampling":
        expect(stage.locator(".dp-v-xray")).to_contain_text("Temperature")
        expect(stage.locator(".dp-v-draw")).to_contain_text("▸")


def test_opened_settings_change_nothing(open_page):
    page = open_page()
    run(page, "greedy")
    finish(page, "greedy")
    config = "JSON.stringify(DP.runs.get(DP.runId('greedy')).config)"
    before, first = page.evaluate(config), page.evaluate("DP.runId('greedy')")
    for group in ("Length and stopping", "Penalties", "Tokens: ban, bias, force", "Guidance"):
        page.get_by_role("button", name=group).first.click()
    expect(page.locator("#greedy-max_time input")).to_be_visible()
    run(page, "greedy")
    page.wait_for_function("id => DP.runId('greedy') !== id", arg=first)
    finish(page, "greedy")
    assert page.evaluate(config) == before


def test_first_token_within_a_second(open_page):
    page = open_page()
    run(page, "greedy")
    finish(page, "greedy")
    page.locator("#greedy-max_new_tokens input[type=number]").fill("8")
    page.locator("#greedy-max_new_tokens input[type=number]").press("Tab")
    took = []
    for _ in range(5):
        before = page.evaluate("DP.runId('greedy')")
        started = time.perf_counter()
        run(page, "greedy")
        page.wait_for_function(
            "id => DP.runId('greedy') !== id && DP.runs.get(DP.runId('greedy')).steps.length > 0",
            arg=before,
        )
        took.append(time.perf_counter() - started)
        finish(page, "greedy")
    assert min(took) < 1.0, took


def test_scrubbing_by_slider_buttons_keys_and_clicks(open_page):
    page = open_page()
    run(page, "greedy")
    finish(page, "greedy")
    label = page.locator("#greedy-stage .dp-scrub output")
    expect(label).to_have_text("step 60 of 60")
    tokens(page, "greedy").nth(9).click()
    expect(label).to_have_text("step 10 of 60")
    tokens(page, "greedy").nth(9).press("ArrowLeft")
    expect(label).to_have_text("step 9 of 60")
    page.get_by_role("button", name="Next step").first.click()
    expect(label).to_have_text("step 10 of 60")
    slider = page.locator("#greedy-stage .dp-scrub input")
    slider.focus()
    slider.press("ArrowLeft")
    expect(label).to_have_text("step 9 of 60")
    chosen = page.evaluate(
        "(() => { const r = DP.runs.get(DP.runId('greedy')); return DP.piece(r, r.steps[8].emit[0]); })()"
    )
    expect(page.locator("#greedy-stage .dp-bars .t.on")).to_have_text(chosen)
    tokens(page, "greedy").nth(8).focus()
    page.keyboard.press("End")
    expect(label).to_have_text("step 60 of 60")


LONG = 256


def slow_down(page):
    """Make the run long enough to be stopped on a fast machine: no early end mark."""
    page.get_by_role("button", name="Length and stopping").first.click()
    for name in ("max_new_tokens", "min_new_tokens"):
        field = page.locator(f"#greedy-{name} input[type=number]")
        field.fill(str(LONG))
        field.press("Tab")


# In the page itself: on a fast machine the run would end before a command from outside arrived.
STOP_SOON = """() => {
  const before = DP.runId("greedy");
  const timer = setInterval(() => {
    const run = DP.runs.get(DP.runId("greedy"));
    if (!run || run.id === before || run.steps.length < 6) return;
    clearInterval(timer);
    document.getElementById("greedy-stop").click();
  }, 5);
}"""


def test_stop_keeps_the_text_and_the_next_run_works(open_page):
    page = open_page()
    slow_down(page)
    for _ in range(2):
        page.evaluate(STOP_SOON)
        before = page.evaluate("DP.runId('greedy')")
        run(page, "greedy")
        page.wait_for_function("before => DP.runId('greedy') !== before", arg=before)
        expect(status(page, "greedy")).to_contain_text("Stopped", timeout=60_000)
        assert 5 < tokens(page, "greedy").count() < LONG


def test_a_closed_tab_frees_the_model(open_page, browser, server):
    other = browser.new_page()
    other.goto(server)
    other.wait_for_selector("#greedy-run")
    slow_down(other)
    run(other, "greedy")
    other.wait_for_function(
        "(() => { const run = DP.runs.get(DP.runId('greedy'));"
        " return run.status === 'running' && run.steps.length > 0; })()"
    )
    page = open_page()
    other.close()
    run(page, "greedy")
    finish(page, "greedy")
    waited = page.evaluate("DP.runs.get(DP.runId('greedy')).timing.queue_s")
    assert waited < 1.5, "the closed tab's run went on"


def test_a_copied_link_gives_the_same_tokens(open_page, server):
    page = open_page()
    show(page, "sampling", "Sampling")
    page.locator("#sampling-prompt textarea").fill('The little fox said "hello" & <b>ran</b>')
    page.locator("#sampling-seed input").fill("42")
    run(page, "sampling")
    finish(page, "sampling")
    ids = "(() => DP.runs.get(DP.runId('sampling')).outputs[0].token_ids)()"
    first, link = page.evaluate(ids), page.url
    assert "seed=42" in link
    other = open_page(link.removeprefix(server))
    finish(other, "sampling")
    assert other.evaluate(ids) == first
    assert other.locator("#sampling-prompt textarea").input_value().endswith("<b>ran</b>")
    assert other.locator("b", has_text="ran").count() == 0


def test_bad_values_show_one_sentence(open_page):
    page = open_page()
    page.locator("#greedy-prompt textarea").fill("")
    run(page, "greedy")
    expect(status(page, "greedy")).to_contain_text("write 1 to 8000 characters")
    page.locator("#greedy-prompt textarea").fill("Once")
    page.get_by_role("button", name="Tokens: ban, bias, force").first.click()
    page.locator("#greedy-bad_words_ids textarea").fill("[[99999]]")
    run(page, "greedy")
    expect(status(page, "greedy")).to_contain_text("token ids of this model go from 0 to")
    page.locator("#greedy-bad_words_ids textarea").fill("")
    run(page, "greedy")
    finish(page, "greedy")


def test_the_downloaded_trace_is_valid_and_complete(open_page, tmp_path):
    page = open_page()
    run(page, "greedy")
    finish(page, "greedy")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download trace").first.click()
    path = tmp_path / "trace.json"
    download.value.save_as(path)
    trace = trace_json.load(path)
    assert len(trace.steps) == 60
    assert json.loads(path.read_text())["schema"] == "decoding-trace/1"


@pytest.mark.parametrize("path", ["/", "/?__theme=dark"])
def test_phone_width_has_no_sideways_scroll(open_page, path):
    page = open_page(path, width=390, height=844)
    run(page, "greedy")
    finish(page, "greedy")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    order = [
        page.locator(s).bounding_box()["y"]
        for s in ("#greedy-prompt", "#greedy-run", "#greedy-stage", "#greedy-model")
    ]
    assert order == sorted(order)


def test_dark_mode_has_light_text(open_page):
    page = open_page("/?__theme=dark")
    run(page, "greedy")
    finish(page, "greedy")
    colour = page.evaluate(
        "getComputedStyle(document.querySelector('#greedy-stage .dp-tok')).color"
    )
    assert min(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")) > 180


def test_a_page_that_missed_a_message_asks_for_everything(open_page):
    page = open_page()
    run(page, "greedy")
    finish(page, "greedy")
    page.evaluate(
        "(() => { const r = DP.runs.get(DP.runId('greedy')); window.before = JSON.stringify(r.outputs);"
        " r.next = 2; r.steps = []; DP.receive(JSON.stringify({run: r.id, seq: 50, kind: 'delta'})); })()"
    )
    page.wait_for_function("DP.runs.get(DP.runId('greedy')).steps.length === 60")
    assert page.evaluate(
        "JSON.stringify(DP.runs.get(DP.runId('greedy')).outputs) === window.before"
    )
