"""No two figures of one page contradict each other: seen in recorded runs as a reader sees them."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from engine.analysis import gallery
from tests.helpers.pages import minus, open_recording, open_tab, run_of, view

pytestmark = pytest.mark.nightly
SELECT = "([i, node]) => playground.page.select(playground.page.shown('replay'), i, node)"


def opened(open_page, strategy):
    page = open_page("/")
    open_tab(page, "Replay")
    entry = next(entry for entry in gallery.list_entries() if entry.strategy == strategy)
    open_recording(page, entry)
    return page, page.locator("#replay-player"), gallery.open_entry(entry.file)


def select(page, index, node=None):
    page.evaluate(SELECT, [index, node])


def test_the_model_and_what_was_used_stand_together(same_page):
    page, stage, trace = opened(same_page, "sampling")
    select(page, 4)
    number = stage.locator(".cb-share").first
    expect(number).to_have_text(
        re.compile(r"\d\s%.*\(model [\d.]+\s%, with your settings [\d.]+\s%\)")
    )
    said = stage.locator('.dp-tok[data-step="4"]').get_attribute("aria-label")
    assert "the model's own probability" in said
    assert "with your settings" in said
    note = view(stage, "xray").locator(".dp-note").last
    said = r"model's own distribution.*with your settings: [\d.]+ bits"
    expect(note).to_contain_text(re.compile(said))
    row = view(stage, "xray").locator("tbody tr").filter(has_text="Top-k")
    expect(row).to_contain_text(f"{trace.model.vocab_size - 50:,} removed")
    plot = view(stage, "chart").locator(".dp-plot-of-steps")
    expect(plot).to_have_attribute("data-mark", "5")
    expect(plot).to_have_attribute("data-sequence", "0")


def test_the_candidates_of_a_search_are_those_of_the_chosen_node(same_page):
    page, stage, trace = opened(same_page, "beam_search")
    index = 6
    names = view(stage, "candidates").locator(".cb-name")
    for node in trace.steps[index].detail.pool:
        select(page, index, node.node_id)
        piece = trace.pieces[node.token_id].replace(" ", "·").replace("\n", "⏎")
        expect(stage.locator(".cb-row.on .cb-name")).to_have_text(piece.strip("·"))
        expect(stage.locator(".bt-facts .bt-title")).to_contain_text(piece)
        beside = [n for n in trace.steps[index].detail.pool if n.parent_id == node.parent_id]
        assert names.count() > len(beside)
    # Without a choice it is the winner's own token of that step.
    select(page, index)
    own = trace.pieces[trace.outputs[0].token_ids[index]].replace(" ", "·").replace("\n", "⏎")
    expect(stage.locator(".cb-row.on .cb-name")).to_have_text(own.strip("·"))
    expect(stage.locator(".bt-facts .bt-title")).to_contain_text(own)


def test_diverse_beams_list_all_their_texts_with_their_groups(same_page):
    _, stage, trace = opened(same_page, "diverse_beam_search")
    heads = stage.locator(".dp-strip .who")
    expect(heads).to_have_count(len(trace.outputs))
    for number, output in enumerate(trace.outputs):
        head = heads.nth(number)
        expect(head).to_contain_text(f"Output {number + 1} · group")
        expect(head).to_contain_text(f"score {minus(output.score)}")
        expect(head).to_contain_text(f"{len(output.token_ids)} tokens")


@pytest.mark.parametrize("strategy", ["greedy", "speculative", "watermark"])
def test_the_first_token_comes_before_the_end(same_page, strategy):
    page, stage, trace = opened(same_page, strategy)
    first = round(1000 * trace.steps[0].elapsed_s)
    expect(view(stage, "figures").locator(".dp-costs")).to_contain_text(
        f"time to first token {first} ms"
    )
    assert trace.steps[0].elapsed_s <= run_of(page, "replay", "timing")["total_s"]
