"""A visitor runs, watches, scrubs, stops, reloads and makes mistakes."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

from engine.sources.source import Source
from engine.strategies import STRATEGIES
from engine.strategies.compatibility import incompatibility_reason
from engine.trace import json_io
from tests.helpers.nightly import mark_nightly
from tests.helpers.pages import (
    address,
    choose_example,
    feed,
    fill,
    finish,
    fits,
    link,
    run,
    run_id,
    run_of,
    settled,
    show,
    start,
    status,
    tokens,
    trace_of,
    unfold,
    view,
)
from tests.helpers.patience import comes_true

# As far as the slider goes.
LONG = 256


@pytest.mark.by_day("greedy")
@pytest.mark.parametrize("strategy", ["greedy", "sampling"])
def test_a_run_comes_in_pieces_and_is_drawn(open_page, strategy):
    page = open_page()
    show(page, strategy)
    run(page, strategy)
    assert run_of(page, strategy, "next") >= 4, "a start, the text in pieces, an end"
    expect(tokens(page, strategy)).to_have_count(60)
    stage = page.locator(f"#{strategy}-stage")
    expect(stage.locator(".dp-v-candidates .cb-row")).to_have_count(8)
    curves = {"greedy": 2, "sampling": 3}
    expect(view(stage, "chart").locator(".cv-curve")).to_have_count(curves[strategy])
    expect(view(stage, "figures").locator(".dp-costs")).to_contain_text("forward passes 60")
    if strategy == "sampling":
        expect(view(stage, "xray")).to_contain_text("Temperature")
        expect(view(stage, "draw")).to_contain_text("▸")


@pytest.mark.nightly
def test_every_piece_is_drawn_before_the_next_one_comes(open_page):
    page = open_page(link("greedy", "Once upon a time", max_new_tokens=12, min_new_tokens=12))
    finish(page, "greedy")
    look = (
        "() => [document.querySelectorAll('#greedy-stage .dp-tok[data-step]').length,"
        " document.querySelector('#greedy-stage .dp-status').textContent]"
    )
    assert feed(page, "greedy", look) == [[n, "Decoding…"] for n in range(1, 13)]


@pytest.mark.nightly
def test_what_is_typed_while_a_recorded_run_is_fetched_stays(open_page):
    page = open_page()
    show(page, "sampling")
    page.wait_for_function("playground.page.shown('sampling')?.entry")
    late = []
    page.route("**/recorded/**/sampling-2.json", lambda route: late.append(route))  # noqa: PLW0108
    preset = STRATEGIES["sampling"].presets[1]
    choose_example(page, "sampling", preset.name)
    page.locator("#sampling-prompt-input").fill("")
    page.locator("#sampling-run").click()
    refused = "prompt = '' is not allowed"
    expect(status(page, "sampling")).to_contain_text(refused)
    late.pop().continue_()
    page.wait_for_function("playground.page.shown('sampling').entry === 'sampling-2'")
    expect(status(page, "sampling")).to_contain_text(refused)
    expect(page.locator("#sampling-prompt-input")).to_have_value("")


@pytest.mark.nightly
def test_what_is_chosen_before_the_address_is_answered_stays(open_page):
    page = open_page("/")
    late = []

    def hold(route):
        asks = re.search(r"action\W+link\b", route.request.post_data or "")
        late.append(route) if asks else route.continue_()

    page.route("**/gradio_api/**", hold)
    page.goto(page.url.split("?", maxsplit=1)[0] + "?trace=custom-2")
    expect(status(page, "custom")).to_contain_text("A recorded run")
    method = page.locator("#custom-method select")
    method.select_option(index=3)
    chosen = method.input_value()
    comes_true(lambda: page.wait_for_timeout(10) or late)
    late.pop().continue_()
    page.wait_for_function("playground.page.shown('custom').entry === 'custom-2'")
    expect(method).to_have_value(chosen)


@pytest.mark.nightly
def test_what_is_refused_before_the_first_recorded_run_is_there_is_said(open_page):
    page = open_page()
    late = []
    page.route("**/recorded/**/beam_search-1.json", lambda route: late.append(route))  # noqa: PLW0108
    show(page, "beam_search")
    page.locator("#beam_search-prompt-input").fill("")
    page.locator("#beam_search-run").click()
    refused = "prompt = '' is not allowed"
    expect(status(page, "beam_search")).to_contain_text(refused)
    assert late, "the recorded run was there first"
    late.pop().continue_()
    page.wait_for_function("playground.page.shown('beam_search').entry === 'beam_search-1'")
    expect(tokens(page, "beam_search").first).to_be_visible()
    expect(status(page, "beam_search")).to_contain_text(refused)


@pytest.mark.nightly
def test_a_picture_that_fails_leaves_the_others_standing(open_page):
    page = open_page()
    page.evaluate(
        """() => {
          window.reported = new Set();
          window.reportError = (error) => window.reported.add(error.message);
          const { views } = playground.page.stages.find((stage) => stage.strategy === "greedy");
          views[0].view.update = () => { throw new Error("planted"); };
        }"""
    )
    run(page, "greedy")
    assert page.evaluate("[...window.reported]") == ["planted"]
    assert tokens(page, "greedy").count() == len(run_of(page, "greedy", "steps"))


@pytest.mark.nightly
def test_a_model_that_cannot_serve_is_offered_with_the_reason_and_refused(open_page):
    page = open_page(link("speculative", "Once upon a time", "&model=storyfixer"))
    reason = incompatibility_reason(STRATEGIES["speculative"], Source.parse("storyfixer"))
    expect(status(page, "speculative")).to_have_text(reason)
    model = page.locator("#speculative-model").get_by_label("Model", exact=True)
    option = model.get_by_role("option", name=reason, include_hidden=True)
    expect(option).to_be_disabled()
    assert run_of(page, "speculative", "status") == "recorded"
    model.select_option("storyteller")
    run(page, "speculative")


@pytest.mark.nightly
def test_a_link_that_cannot_be_read_is_answered(open_page):
    page = open_page("/?strategy=sampling&seed=x&prompt=a")
    expect(status(page, "sampling")).to_contain_text("seed = 'x' is not allowed")
    other = open_page("/?strategy=nope")
    expect(status(other, "greedy")).to_contain_text("strategy = 'nope' is not allowed")


@pytest.mark.nightly
def test_a_large_seed_stays_exact(open_page):
    given = link("sampling", "Once upon a time", "&seed=9223372036854775807", max_new_tokens=2)
    page = open_page(given)
    finish(page, "sampling")
    expect(page.locator("#sampling-seed input")).to_have_value("9223372036854775807")
    assert "seed=9223372036854775807" in address(page)


@pytest.mark.nightly
def test_scrubbing_by_buttons_keys_and_clicks(open_page):
    page = open_page()
    run(page, "greedy")
    label = page.locator("#greedy-stage .dp-scrub output")
    tokens(page, "greedy").nth(9).click()
    expect(label).to_have_text("Word 10 of 60")
    tokens(page, "greedy").nth(9).press("ArrowLeft")
    expect(label).to_have_text("Word 9 of 60")
    page.get_by_role("button", name="Next word").first.click()
    expect(label).to_have_text("Word 10 of 60")
    chosen = page.evaluate(
        "(() => { const r = playground.page.shown('greedy'); return playground.page.piece(r, r.steps[9].emit[0]); })()"
    )
    expect(page.locator("#greedy-stage .cb-row.on .cb-name")).to_have_text(chosen.strip("·"))
    tokens(page, "greedy").nth(9).focus()
    page.keyboard.press("End")
    expect(label).to_have_text("Word 60 of 60")


def make_long(page):
    """Let the run be as long as the page offers, two forwards a token, so that it can be caught."""
    unfold(page, "greedy", "Length and stopping", "min_new_tokens")
    fill(page, "greedy-max_new_tokens", LONG)
    fill(page, "greedy-min_new_tokens", LONG)
    unfold(page, "greedy", "Guidance", "guidance_scale")
    fill(page, "greedy-guidance_scale", 1.5)


# In the page itself: on a fast machine the run would end before a command from outside arrived.
STOP_SOON = """before => {
  const receive = playground.page.receive;
  playground.page.receive = (text) => {
    receive(text);
    const run = playground.page.shown("greedy");
    if (run.id === before || run.steps.length === 0) return;
    playground.page.receive = receive;
    document.getElementById("greedy-stop").click();
  };
}"""


def test_stop_keeps_the_text_and_the_next_run_works(open_page):
    page = open_page()
    make_long(page)
    for _ in range(2):
        before = run_id(page, "greedy")
        page.evaluate(STOP_SOON, before)
        start(page, "greedy")
        page.wait_for_function(
            "before => playground.page.runId('greedy') !== before"
            " && playground.page.shown('greedy').status === 'stopped'",
            arg=before,
        )
        expect(status(page, "greedy")).to_contain_text("Stopped")
        assert 0 < len(run_of(page, "greedy", "steps")) < LONG
        expect(tokens(page, "greedy")).to_have_count(len(run_of(page, "greedy", "steps")))


@pytest.mark.nightly
def test_a_copied_link_gives_the_same_tokens(open_page, server):
    page = open_page()
    show(page, "sampling")
    page.locator("#sampling-prompt textarea").fill('The little fox said "hello" & <b>ran</b>')
    fill(page, "sampling-seed", 42)
    run(page, "sampling")
    first, said = run_of(page, "sampling", "outputs"), address(page, "seed=42")
    other = open_page(said.removeprefix(server))
    finish(other, "sampling")
    assert run_of(other, "sampling", "outputs") == first
    assert other.locator("#sampling-prompt textarea").input_value().endswith("<b>ran</b>")
    assert other.locator("b", has_text="ran").count() == 0


def test_bad_values_show_one_sentence(open_page):
    page = open_page()
    page.locator("#greedy-prompt textarea").fill("")
    start(page, "greedy")
    expect(status(page, "greedy")).to_contain_text("write 1 to 8000 characters")
    page.locator("#greedy-prompt textarea").fill("Once")
    unfold(page, "greedy", "Tokens: ban, bias, force", "bad_words_ids")
    page.locator("#greedy-bad_words_ids textarea").fill("[[99999]]")
    start(page, "greedy")
    expect(status(page, "greedy")).to_contain_text("token ids of this model go from 0 to")
    page.locator("#greedy-bad_words_ids textarea").fill("")
    run(page, "greedy")


@pytest.mark.nightly
def test_the_downloaded_trace_is_valid_and_complete(open_page, tmp_path):
    page = open_page()
    run(page, "greedy")
    with page.expect_download() as download:
        view(page.locator("#greedy-stage"), "figures").get_by_role(
            "button", name="Download trace"
        ).click()
    path = tmp_path / "trace.json"
    download.value.save_as(path)
    trace = json_io.load(path)
    assert len(trace.steps) == 60
    assert json.loads(path.read_text())["schema"] == "decoding-trace/2"


@pytest.mark.parametrize("path", ["/", *mark_nightly(["/?__theme=dark"])])
def test_phone_width_has_no_sideways_scroll(open_page, path):
    page = open_page(path, width=390, height=844)
    run(page, "greedy")
    assert fits(page)
    order = [
        page.locator(s).bounding_box()["y"]
        for s in ("#greedy-prompt", "#greedy-run", "#greedy-stage")
    ]
    assert order == sorted(order)


@pytest.mark.nightly
def test_dark_mode_has_light_text(open_page):
    page = open_page("/?__theme=dark")
    run(page, "greedy")
    settled(page)
    colour = page.evaluate(
        "getComputedStyle(document.querySelector('#greedy-stage .dp-tok')).color"
    )
    assert min(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")) > 180


def test_a_page_that_missed_a_message_asks_for_everything(open_page):
    page = open_page()
    run(page, "greedy")
    page.evaluate(
        "(() => { const r = playground.page.shown('greedy'); window.before = JSON.stringify(r.outputs);"
        " r.next = 2; r.steps = []; playground.page.receive(JSON.stringify({run: r.id, seq: 50, kind: 'delta'})); })()"
    )
    page.wait_for_function("playground.page.shown('greedy').steps.length === 60")
    assert page.evaluate(
        "JSON.stringify(playground.page.shown('greedy').outputs) === window.before"
    )


@pytest.mark.nightly
def test_a_page_that_missed_even_the_beginning_asks_for_everything(open_page):
    page = open_page()
    page.evaluate(
        "(() => { const receive = playground.page.receive; window.missed = 0; playground.page.receive = (text) => {"
        " if (text && JSON.parse(text).kind === 'start') window.missed += 1; else receive(text); }; })()"
    )
    run(page, "greedy")
    assert page.evaluate("window.missed") == 1
    expect(tokens(page, "greedy")).to_have_count(60)
    assert trace_of(page, "greedy").outputs[0].text
