"""A page is never silent: in line, checking, stopped, without a connection; Run and Stop follow.

The server is one of this process, so that a gate can hold its model: what waits, waits for the test.
"""

from __future__ import annotations

import dataclasses
import re

import pytest
from playwright.sync_api import expect

from engine.loops.teacher_forced import is_causal
from engine.models.loading import load
from engine.run import jobs
from engine.run import run as engine_run
from engine.run.scheduler import RUN_QUEUE
from playground.jobs import registry
from tests.helpers.gates import gate
from tests.helpers.pages import (
    fill,
    finish,
    open_tab,
    run,
    run_id,
    run_of,
    shot,
    show,
    start,
    status,
    tokens,
    view,
)
from tests.helpers.patience import PATIENCE_MS, wait_for
from tests.helpers.served import SERVED_HERE

pytestmark = SERVED_HERE
MODEL = "storyteller"
CHECKED = "prompt_lookup"
RUNS = 2000
NEW = 8
# What the page's own script says at six presses, before any answer can have come.
PRESSED = """key => {
  for (let i = 0; i < 6; i++) document.getElementById(key + "-run").click();
  return document.querySelector(`#${key}-stage .dp-status`).textContent;
}"""


@pytest.fixture
def held(visit, monkeypatch):
    """Return a page whose run has the model for itself, held at its first pass, and the gate."""
    monkeypatch.setattr(
        engine_run, "SETTINGS", dataclasses.replace(engine_run.SETTINGS, max_shared_runs=1)
    )
    with gate(load(MODEL).model, free=0) as gated:
        page = visit()
        start(page, "greedy")
        gated.wait()
        yield page, gated
        # Where the test has stopped it already this does nothing.
        page.evaluate("document.getElementById('greedy-stop').click()")
    page.wait_for_function("!playground.page.activity('greedy')")


def buttons(page, key):
    return page.locator(f"#{key}-run"), page.locator(f"#{key}-stop")


def in_line(place):
    runs = f"{place} runs" if place > 1 else "1 run"
    return re.compile(rf"^Waiting: {runs} before yours(, about \d+ s)?$")


@pytest.mark.nightly
def test_three_in_line_see_their_places_and_one_leaves(held, visit):
    first, gated = held
    line = [visit() for _ in range(3)]
    for place, page in enumerate(line, 1):
        go, stop = buttons(page, "greedy")
        expect(go).to_be_enabled()
        expect(stop).to_be_hidden()
        expect(tokens(page, "greedy")).not_to_have_count(0)
        before = run_id(page, "greedy")
        assert page.evaluate(PRESSED, "greedy") == "Starting…"
        expect(status(page, "greedy")).to_have_text(in_line(place))
        expect(go).to_be_disabled()
        expect(stop).to_be_enabled()
        # What was drawn before is still there.
        assert run_id(page, "greedy") == before
        assert tokens(page, "greedy").count() > 0
    shot(line[2], "waiting")
    line[1].locator("#greedy-stop").click()
    expect(status(line[1], "greedy")).to_have_text("Stopped before it began.")
    expect(line[1].locator("#greedy-run")).to_be_enabled()
    expect(line[1].locator("#greedy-stop")).to_be_hidden()
    expect(status(line[2], "greedy")).to_have_text(in_line(2))
    before = [run_id(page, "greedy") for page in line]
    first.locator("#greedy-stop").click()
    expect(status(first, "greedy")).to_have_text("Stopping…")
    gated.open()
    for number in (0, 2):
        finish(line[number], "greedy", before[number])
        # Six presses were one run.
        own = "[...playground.page.runs.values()].filter(run => !run.entry).length"
        assert line[number].evaluate(own) == 1
    run(line[1], "greedy")


@pytest.mark.nightly
def test_a_bad_value_is_answered_while_others_are_at_work(held, visit):
    page = visit()
    show(page, "sampling")
    fill(page, "sampling-top_p", 7)
    start(page, "sampling")
    expect(status(page, "sampling")).to_contain_text("top_p = 7")
    expect(page.locator("#sampling-run")).to_be_enabled()


@pytest.mark.nightly
def test_many_draws_the_bench_and_a_comparison_report_their_wait(held, visit):
    page = visit()
    open_tab(page, "Draws")
    draws = page.locator("#draws-tree .dp-status")
    page.locator("#draws-run").click()
    expect(draws).to_have_text(in_line(1))
    open_tab(page, "Bench")
    bench = page.locator("#page-watermark_bench .dp-ask > .dp-status")
    page.locator("#wb-run").click()
    expect(bench).to_have_text(in_line(2))
    open_tab(page, "Compare")
    compare = page.locator("#compare .cmp-ask")
    compare.get_by_role("button", name="Run all").click()
    column = page.locator("#compare .cmp-text").first.locator(".dp-v-status .dp-status")
    expect(column).to_have_text(in_line(3))
    expect(compare.locator(".dp-status")).to_contain_text("Decoding column A, 1 of")
    compare.get_by_role("button", name="Stop").click()
    expect(compare.locator(".dp-status")).to_contain_text("A has no text to judge.")
    expect(compare.get_by_role("button", name="Stop")).to_be_hidden()
    open_tab(page, "Bench")
    page.locator("#wb-stop").click()
    expect(bench).to_have_text("Stopped before it began.")
    open_tab(page, "Draws")
    page.locator("#draws-stop").click()
    expect(draws).to_contain_text("Stopped")
    expect(page.locator("#draws-run")).to_be_enabled()
    assert len(RUN_QUEUE._tickets) == 1


@pytest.mark.nightly
def test_a_branch_waits_where_it_will_be_shown(held, visit):
    page = visit()
    expect(status(page, "greedy")).to_contain_text("A recorded run")
    before = run_id(page, "greedy")
    page.evaluate("playground.page.select(playground.page.shown('greedy'), 5)")
    view(page.locator("#greedy-stage"), "family").locator(".fm-go").click()
    expect(status(page, "greedy")).to_have_text(in_line(1))
    page.locator("#greedy-stop").click()
    expect(status(page, "greedy")).to_have_text("Stopped before it began.")
    assert run_id(page, "greedy") == before


@pytest.fixture
def soon(monkeypatch):
    """Have the server give up a page that is gone after a moment, and not after half a minute."""
    monkeypatch.setattr(registry, "SETTINGS", dataclasses.replace(registry.SETTINGS, away_s=3.0))


@pytest.mark.nightly
def test_a_tab_that_is_closed_while_it_waits_leaves_the_line(held, visit, browser, here, soon):
    other = browser.new_page()
    other.set_default_timeout(PATIENCE_MS)
    other.goto(f"{here}/?tab=greedy")
    other.wait_for_function("window.playground?.page?.connected()")
    other.locator("#greedy-run").click()
    expect(status(other, "greedy")).to_have_text(in_line(1))
    third = visit()
    start(third, "greedy")
    expect(status(third, "greedy")).to_have_text(in_line(2))
    other.close()
    expect(status(third, "greedy")).to_have_text(in_line(1))
    third.locator("#greedy-stop").click()
    expect(status(third, "greedy")).to_have_text("Stopped before it began.")


def check(page):
    """Let a page's run come to a check after its text."""
    show(page, CHECKED)
    page.evaluate(
        "([name, length, runs]) => { const tab = playground.page.tabOf(name), asked = tab.ask();"
        " tab.show({ ...asked, values: { ...asked.params, max_new_tokens: length, min_new_tokens: length,"
        " do_sample: true, distribution_runs: runs } }); }",
        [CHECKED, NEW, RUNS],
    )
    start(page, CHECKED)


@pytest.mark.nightly
def test_a_check_that_is_stopped_is_left_out_and_the_text_stays(visit):
    page = visit()
    is_causal(load(MODEL))  # two passes, once for each model
    # More passes than the text takes, fewer than the check.
    with gate(load(MODEL).model, free=2 * NEW) as gated:
        check(page)
        gated.wait()
        expect(status(page, CHECKED)).to_have_text(
            re.compile(
                rf"^Checking \d+ of {RUNS}: short runs against the main model's exact distribution$"
            )
        )
        shot(page, "checking")
        page.locator(f"#{CHECKED}-stop").click()
        expect(status(page, CHECKED)).to_have_text("Stopping…")
    finish(page, CHECKED)
    expect(status(page, CHECKED)).to_contain_text(
        "The comparison of distributions is left out: the run was stopped after"
    )
    (output,) = run_of(page, CHECKED, "outputs")
    assert (len(output["token_ids"]), output["finish_reason"]) == (NEW, "length")
    expect(tokens(page, CHECKED)).to_have_count(NEW)
    expect(page.locator(f"#{CHECKED}-stop")).to_be_hidden()


@pytest.mark.nightly
def test_a_tab_that_is_closed_while_it_checks_ends_the_check(visit, browser, here, soon):
    other = browser.new_page()
    other.set_default_timeout(PATIENCE_MS)
    other.goto(here)
    other.wait_for_function("window.playground?.page?.connected()")
    is_causal(load(MODEL))  # two passes, once for each model
    with gate(load(MODEL).model, free=2 * NEW) as gated:
        check(other)
        gated.wait()
        expect(status(other, CHECKED)).to_contain_text("Checking")
        (left,) = jobs._ACTIVE_JOBS.values()
        other.close()
        wait_for(left)
    run(visit(), "greedy")


def test_without_a_connection_the_tab_says_so_and_continues_when_it_is_back(browser, here):
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(f"{here}/?tab=greedy")
    page.wait_for_function("window.playground?.page?.connected()")
    go, stop = buttons(page, "greedy")
    context.set_offline(True)
    go.click()
    away = "The server cannot be reached. Your run starts as soon as it is back."
    expect(status(page, "greedy")).to_have_text(away)
    stop.click()
    expect(status(page, "greedy")).to_have_text("Stopped before it was sent.")
    before = start(page, "greedy")
    expect(status(page, "greedy")).to_have_text(away)
    shot(page, "offline")
    context.set_offline(False)
    finish(page, "greedy", before)
    context.close()
