"""Comparing in the browser: three columns from one press, the parting marked as the engine says."""

from __future__ import annotations

import json
import math
from urllib.parse import parse_qs, urlparse

import pytest
from playwright.sync_api import expect

from engine.settings import SETTINGS
from engine.trace import json_io
from tests.helpers.models import with_settings
from tests.helpers.pages import (
    address,
    choose_comparison,
    fill,
    fits,
    open_compare_settings,
    open_tab,
    shot,
)
from tests.helpers.runs import parts_at

LONG = SETTINGS.max_new_tokens
RUNS = (
    "playground.page.stages.filter(s => s.strategy.startsWith('compare-') && s.root.isConnected && !s.root.hidden)"
    ".map(s => playground.page.shown(s.strategy))"
)
# Presses Stop as soon as the page has been told of the first token.
STOP_SOON = """() => {
  const receive = playground.page.receive, buttons = [...document.querySelectorAll(".cmp-ask button")];
  const stop = buttons.find((button) => button.textContent === "Stop");
  playground.page.receive = (text) => {
    receive(text);
    const runs = [...playground.page.runs.values()].filter((run) => run.status === "running" && run.steps.length);
    if (!runs.length || stop.disabled) return;
    playground.page.receive = receive;
    stop.click();
  };
}"""


def opened(open_page, columns=2, **size):
    page = open_page(**size)
    open_tab(page, "Compare")
    expect(page.locator(".cmp-column")).to_have_count(4)
    choose_comparison(page, "Beam search and greedy")
    expect(page.locator(".cmp-column")).to_have_count(2)
    open_compare_settings(page)
    while page.locator(".cmp-column").count() < columns:
        page.get_by_role("button", name="Add a column").click()
    return page


def test_three_columns_stream_and_the_parting_is_marked(open_page):
    page = opened(open_page, columns=3)
    third = page.get_by_label("Column C", exact=True)
    third.locator("[data-field=strategy]").select_option("sampling")
    third.locator("[data-param=max_new_tokens]").fill("60")
    third.locator("[data-param=temperature]").fill("1.4")
    page.get_by_role("button", name="Run all").click()
    expect(page.locator(".cmp-table")).to_be_visible()
    # Every column came in pieces: a start, the text and an end at least.
    assert min(page.evaluate(f"{RUNS}.map(run => run.next)")) >= 3
    texts = page.evaluate(f"{RUNS}.map(run => JSON.stringify(playground.page.trace(run)))")
    traces = [json_io.loads(text) for text in texts]
    assert [t.strategy for t in traces] == ["beam_search", "greedy", "sampling"]
    assert traces[2].config["temperature"] == 1.4
    at = parts_at(traces)
    expect(page.locator(".cmp-verdict")).to_have_attribute("data-at", str(at))
    expect(page.locator(".cmp-findings")).to_contain_text("Storyteller finds A likelie")
    marks = page.locator(".cmp-different")
    expect(marks).to_have_count(3)
    for i, trace in enumerate(traces):
        wrote = trace.pieces[trace.outputs[0].token_ids[at]].strip()
        expect(marks.nth(i)).to_contain_text(wrote)
        expect(page.locator(".cmp-side").nth(i)).to_contain_text(wrote)
    expect(page.locator(".cmp-common")).to_have_count(3 * at)
    # One bar per text and measure: nothing is drawn twice.
    expect(page.locator(".cmp-table tbody tr")).to_have_count(6)
    expect(page.locator(".cmp-bar > i")).to_have_count(6 * 3)
    expect(page.locator(".cmp-bar > u")).to_have_count(0)
    page.locator(".cmp-drawer > summary", has_text="More").click()
    expect(page.locator(".cmp-figures tbody tr")).to_have_count(7)
    expect(page.locator(".cmp-diff")).to_have_count(2)
    expect(page.locator(".cmp-plot .scatterlayer .trace")).to_have_count(6)
    shot(page, "compare")


@pytest.mark.nightly
def test_columns_and_judge_are_loaded_as_chosen_and_a_link_loads_them_so_again(open_page):
    page = opened(open_page)
    first, second = (page.get_by_label(f"Column {label}", exact=True) for label in "AB")
    for column in (first, second):
        column.locator("[data-param=max_new_tokens]").fill("4")
    second.locator("summary", has_text="Weights").click()
    second.locator("[data-param=dtype]").select_option("bfloat16")
    expect(second.locator("summary", has_text="Weights")).to_contain_text("1 changed")
    judge = page.locator(".cmp-judge")
    judge.locator("summary").click()
    judge.locator("[data-param=dtype]").select_option("float16")
    page.get_by_role("button", name="Run all").click()
    held = ["float32 on cpu", "bfloat16 on cpu"]
    expect(page.locator(".cmp-weights")).to_have_text(held)
    expect(page.locator(".cmp-table")).to_be_visible()
    page.locator(".cmp-drawer > summary", has_text="More").click()
    row = page.locator(".cmp-figures tbody tr", has_text="weights")
    assert row.locator("td").all_text_contents() == ["float32", "bfloat16"]
    expect(page.locator(".cmp-more")).to_contain_text("storyteller (float16)")
    shot(page, "compare_weights")
    there = urlparse(address(page, "base_weights"))
    [form] = parse_qs(there.query)["form"]
    said = json.loads(form)
    assert said["base_weights"] == {"dtype": "float16"}
    assert [c["params"].get("dtype") for c in said["columns"]] == [None, "bfloat16"]
    other = open_page(there._replace(scheme="", netloc="").geturl())
    expect(other.locator(".cmp-weights")).to_have_text(held)
    other.locator(".cmp-drawer > summary", has_text="More").click()
    expect(other.locator(".cmp-more")).to_contain_text("storyteller (float16)")
    assert other.evaluate(f"{RUNS}.map(run => run.model.dtype)") == ["float32", "bfloat16"]


@pytest.mark.nightly
def test_a_column_takes_over_its_models_own_settings_and_keeps_the_model(open_page, tmp_path):
    folder = with_settings(tmp_path / "model", {"do_sample": True, "temperature": 0.6, "top_p": 1})
    page = opened(open_page)
    column = page.get_by_label("Column A", exact=True)
    column.locator("[data-field=strategy]").select_option("sampling")
    column.locator(".f-model select").first.select_option(label="Another…")
    name = column.locator(".f-model input[type=text]").first
    name.fill(folder)
    name.press("Tab")
    own = column.locator(".defaults-box")
    expect(own.locator("tr[data-param=temperature]")).to_have_text("Temperature0.61")
    temperature = column.locator("input[data-param=temperature]")
    expect(temperature).to_have_value("1")
    expect(page.get_by_label("Column B", exact=True).locator(".defaults-box")).to_be_hidden()
    own.get_by_role("button", name="Use the model's value", exact=True).click()
    expect(temperature).to_have_value("0.6")
    expect(own).to_contain_text("The form has the model's values")
    field = column.locator(".f-field", has=page.locator("input[data-param=temperature]"))
    expect(field.locator(".f-mark")).to_be_visible()
    column.locator("[data-field=strategy]").select_option("greedy")
    expect(name).to_have_value(folder)
    # Greedy search has no temperature to take over.
    expect(column.locator(".defaults-box .defaults-apply")).to_be_hidden()


@pytest.mark.nightly
def test_what_is_wrong_is_said_and_the_page_continues(open_page):
    page = opened(open_page)
    page.locator("[data-param=num_beams]").fill("99")
    page.get_by_role("button", name="Run all").click()
    expect(page.locator(".cmp-ask .dp-status.bad")).to_contain_text("num_beams = 99")
    expect(page.get_by_role("button", name="Run all")).to_be_enabled()


@pytest.mark.nightly
def test_a_ticked_box_looks_ticked(open_page):
    page = opened(open_page)
    choose_comparison(page, "With a watermark and without")
    box = page.get_by_label("Column A", exact=True).locator("[data-param=do_sample]")
    expect(box).to_be_checked()
    ticked = box.screenshot()
    box.uncheck()
    page.locator(".cmp-line").first.hover()
    assert box.screenshot() != ticked
    # The browser's own tick: Gradio draws a white one and colours the ground only in its own forms.
    assert box.evaluate("n => getComputedStyle(n).appearance") == "auto"


@pytest.mark.nightly
def test_stop_keeps_what_is_there_and_fits_a_telephone(open_page):
    page = opened(open_page)
    page.set_viewport_size({"width": 390, "height": 900})
    column = page.get_by_label("Column A", exact=True)
    column.locator("[data-field=strategy]").select_option("greedy")
    column.get_by_text("More parameters").click()
    column.get_by_text("Length and stopping").click()
    for name in ("max_new_tokens", "min_new_tokens"):
        column.locator(f"[data-param={name}]").fill(str(LONG))
    page.evaluate(STOP_SOON)
    page.get_by_role("button", name="Run all").click()
    expect(page.locator(".cmp-table")).to_be_visible()
    assert fits(page)
    # The second column never began.
    first, second = page.evaluate(f"{RUNS}.map(run => run ? [run.status, run.steps.length] : null)")
    assert second is None
    assert first[0] == "stopped"
    assert 0 < first[1] < LONG
    shot(page, "compare_phone")


@pytest.mark.nightly
def test_seeds_show_their_spread_and_one_text_at_a_time(open_page):
    page = opened(open_page)
    first, second = (page.get_by_label(f"Column {label}", exact=True) for label in "AB")
    for column in (first, second):
        column.locator("[data-param=max_new_tokens]").fill("8")
    second.locator("[data-field=strategy]").select_option("sampling")
    second.locator("[data-param=max_new_tokens]").fill("8")
    page.get_by_label("Seeds", exact=True).fill("0-9")
    page.get_by_role("button", name="Run all").click()
    expect(page.locator(".cmp-ask .dp-status.bad")).to_contain_text("seed = '0-9' is not allowed")
    page.get_by_label("Seeds", exact=True).fill("3, 5-6")
    page.get_by_role("button", name="Run all").click()
    expect(page.locator(".cmp-table")).to_be_visible()
    # A tick for each seed on every bar that has a value, and the text of the first one.
    expect(page.locator("[data-measure=perplexity] .cmp-bar > u")).to_have_count(2 * 3)
    chosen = page.get_by_label("Texts of seed", exact=True)
    assert chosen.locator("option").all_text_contents() == ["3", "5", "6"]
    texts = []
    for place, seed in enumerate((3, 5, 6)):
        chosen.select_option(index=place)
        traces = [
            json_io.loads(text)
            for text in page.evaluate(
                f"{RUNS}.map(run => JSON.stringify(playground.page.trace(run)))"
            )
        ]
        assert [trace.seed for trace in traces] == [seed] * 2
        expect(page.locator(".cmp-verdict")).to_have_attribute("data-at", str(parts_at(traces)))
        expect(page.locator(".cmp-stage:not([hidden]) .cmp-different")).to_have_count(2)
        texts.append([trace.outputs[0].text for trace in traces])
    assert len({beams for beams, _ in texts}) == 1
    assert len({sampled for _, sampled in texts}) == 3
    form = json.loads(parse_qs(urlparse(address(page, "seed")).query)["form"][0])
    assert form["seed"] == "3, 5-6"
    shot(page, "compare_seeds")


@pytest.mark.parametrize(("width", "height", "screens"), [(1440, 900, 2), (390, 844, 4)])
def test_the_recorded_comparison_is_a_few_screens_long(open_page, width, height, screens):
    page = open_page("/?tab=compare", width=width, height=height)
    expect(page.locator(".cmp-table")).to_be_visible()
    expect(page.locator(".cmp-different")).to_have_count(4)
    assert page.evaluate("document.documentElement.scrollHeight") <= screens * height
    # The verdict and the first text are on the first screen.
    for part in (".cmp-lead", ".cmp-text .dp-strip"):
        assert page.locator(part).first.bounding_box()["y"] < height * 0.8
    assert fits(page)
    shot(page, f"compare-{width}")


def test_an_example_shows_its_form_at_once_and_its_texts_next_to_what_is_changed_since(open_page):
    page = open_page("/?tab=compare")
    expect(page.locator(".cmp-different")).to_have_count(4)
    held = []

    def hold(route):
        held.append(route)

    page.route("**/recorded/**", hold)
    choose_comparison(page, "Beam search and greedy")
    expect(page.locator(".cmp-column")).to_have_count(2)
    expect(page.locator(".cmp-different")).to_have_count(0)
    open_compare_settings(page)
    length = page.get_by_label("Column A", exact=True).locator("[data-param=max_new_tokens]")
    length.fill("7")
    [recording] = held
    recording.continue_()
    expect(page.locator(".cmp-different")).to_have_count(2)
    expect(length).to_have_value("7")


def test_a_token_shows_what_every_text_saw_at_its_place(open_page):
    page = open_page("/?tab=compare")
    expect(page.locator(".cmp-different")).to_have_count(4)
    second = page.locator(".cmp-text").nth(1)
    second.locator(".dp-tok[data-step]").nth(4).click()
    expect(page.locator(".cmp-here")).to_have_count(4)
    runs = page.evaluate(f"{RUNS}.map(run => run.pieces[run.tokens[0][4].id].trim())")
    for i, word in enumerate(runs):
        expect(page.locator(".cmp-place").nth(i)).to_contain_text("Token 5")
        expect(page.locator(".cmp-place").nth(i)).to_contain_text(word)
    # The first difference stays marked.
    expect(page.locator(".cmp-different")).to_have_count(4)


def test_many_draws_grow_into_a_tree(open_page):
    page = open_page()
    open_tab(page, "Draws")
    fill(page, "draws-draws", 64)
    page.locator("#draws-run").click()
    tree = page.locator("#draws-tree")
    expect(tree.locator(".dp-status")).to_contain_text("Done: 64 of 64")
    expect(tree.locator(".pt-node.root .pt-share")).to_have_text("64 draws")
    # The first forks hold all draws, and the table's shares are counts of 64.
    rows = tree.locator("tbody tr")
    assert rows.count() > 3
    times = int(rows.first.locator("td").nth(1).inner_text())
    share = rows.first.locator("td").nth(2).inner_text()
    assert share == f"{math.floor(100 * times / 64 + 0.5)}\u00a0%"
    page.set_viewport_size({"width": 390, "height": 900})
    assert fits(page)
    shot(page, "draws_phone")
    page.set_viewport_size({"width": 1440, "height": 900})
    page.locator("#draws-prompt textarea").fill("")
    page.locator("#draws-run").click()
    expect(tree.locator(".dp-status.bad")).to_contain_text("write 1 to 8000")
