"""Replay in the browser: the gallery, the player's keys, files dropped in, files refused."""

from __future__ import annotations

import base64
import json
import math

import pytest
from playwright.sync_api import expect

from engine import STRATEGIES
from engine.analysis import gallery
from engine.trace import json_io
from tests.helpers.pages import fits, open_recording, open_tab, run_of, shot, trace_of, view

LABEL = "#replay-player .pl-bar output"
DROP = """([name, data]) => {
  const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
  const transfer = new DataTransfer();
  transfer.items.add(new File([bytes], name, { type: "application/json" }));
  const box = document.querySelector("#replay-file");
  const target = box.querySelector("button");
  const options = { dataTransfer: transfer, bubbles: true, cancelable: true };
  for (const kind of ["dragenter", "dragover", "drop"])
    target.dispatchEvent(new DragEvent(kind, options));
}"""


def replay(open_page):
    page = open_page("/")
    open_tab(page, "Replay")
    # What the tab opens with is there: until then Gradio may write its first values once more.
    expect(page.locator("#replay-player .dp-tok[data-step]").first).to_be_visible()
    return page


def first_of(strategy):
    return next(entry for entry in gallery.list_entries() if entry.strategy == strategy)


def opened(page, strategy):
    entry = first_of(strategy)
    open_recording(page, entry)
    return gallery.open_entry(entry.file)


@pytest.mark.nightly
def test_the_first_page_shows_a_recorded_run_before_any_model_is_loaded(open_page):
    page = open_page("/")
    trace = gallery.open_entry(first_of("greedy").file)
    stage = page.locator("#greedy-stage")
    expect(stage.locator(".dp-v-status .dp-status")).to_contain_text("A recorded run")
    expect(stage.locator(".dp-tok[data-step]")).to_have_count(len(trace.outputs[0].token_ids))


def test_play_pause_and_keys(same_page):
    page = replay(same_page)
    trace = opened(page, "sampling")
    total = len(trace.steps)
    label = page.locator(LABEL)
    expect(label).to_have_text(f"{total} of {total} steps")
    page.keyboard.press("Home")
    expect(label).to_have_text(f"0 of {total} steps")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(label).to_have_text(f"2 of {total} steps")
    page.keyboard.press("ArrowLeft")
    expect(label).to_have_text(f"1 of {total} steps")
    expect(page.locator("#replay-player .dp-tok[data-step]")).to_have_count(1)
    page.locator("#replay-player .pl-bar select").select_option("16")
    page.locator("#replay-player .pl-bar").focus()
    page.keyboard.press("Space")
    expect(label).to_have_text(f"{total} of {total} steps")
    page.keyboard.press("Home")
    page.locator("#replay-player .pl-bar select").select_option("0.5")
    page.locator("#replay-player .pl-bar").focus()
    page.keyboard.press("Space")
    expect(page.locator("#replay-player .pl-play")).to_contain_text("Pause")
    page.keyboard.press("Space")
    expect(page.locator("#replay-player .pl-play")).to_contain_text("Play")
    page.keyboard.press("End")
    expect(label).to_have_text(f"{total} of {total} steps")
    shot(page, "replay")


@pytest.mark.nightly
def test_every_visual_of_every_recorded_strategy_is_drawn(same_page):
    page = replay(same_page)
    for strategy in dict.fromkeys(entry.strategy for entry in gallery.list_entries()):
        trace = opened(page, strategy)
        assert trace_of(page, "replay") == trace
        for visual in STRATEGIES[strategy].visuals:
            card = view(page.locator("#replay-player"), visual).locator("> div")
            expect(card, f"{visual} of {strategy}").to_be_visible()
            assert card.evaluate("n => n.childElementCount") > 0, (strategy, visual)
        page.locator("#replay-player .pl-bar").focus()
        page.keyboard.press("Home")
        page.keyboard.press("ArrowRight")
        expect(page.locator(LABEL)).to_have_text(f"1 of {len(trace.steps)} steps")


def test_a_file_is_dropped_and_played(same_page, tmp_path):
    page = replay(same_page)
    trace = gallery.open_entry(first_of("beam_search").file)
    data = base64.b64encode(json_io.dumps(trace).encode()).decode()
    page.evaluate(DROP, ["mine.json", data])
    expect(page.locator("#replay-player .pl-title")).to_have_text("mine.json")
    expect(page.locator("#replay-note")).to_contain_text("steps of beam_search")
    pool = sum(len(step.detail.pool) for step in trace.steps)
    expect(page.locator("#replay-player .bt-node")).to_have_count(pool)


@pytest.mark.nightly
def test_a_bad_file_is_refused_in_a_sentence_and_the_player_stays(open_page, tmp_path):
    page = replay(open_page)
    trace = opened(page, "greedy")
    broken = json_io.trace_to_dict(trace)
    broken["steps"][3]["candidates"][0]["token_id"] = 10**6
    newer = {**broken, "schema": "decoding-trace/9"}
    for name, content, says in (
        ("step.json", broken, "Step 3"),
        ("newer.json", newer, "decoding-trace/9"),
        ("no.json", [1], "object"),
    ):
        path = tmp_path / name
        path.write_text(json.dumps(content))
        page.locator("#replay-file input[type=file]").set_input_files(path)
        note = page.locator("#replay-note .dp-status.bad")
        expect(note).to_contain_text(says)
        open_recording(page, first_of("greedy"))
        expect(note).to_have_count(0)
        page.locator(
            "#replay-file button[aria-label*=lear], #replay-file button[title*=lear]"
        ).first.click()
    expect(page.locator(LABEL)).to_have_text(f"{len(trace.steps)} of {len(trace.steps)} steps")


@pytest.mark.nightly
def test_on_a_telephone(open_page):
    page = replay(open_page)
    page.set_viewport_size({"width": 390, "height": 900})
    opened(page, "contrastive_search")
    assert fits(page)
    shot(page, "replay_phone")


@pytest.mark.nightly
@pytest.mark.parametrize("strategy", ["speculative", "prompt_lookup", "beam_search"])
def test_a_token_shows_the_probability_of_its_own_place(same_page, strategy):
    page = replay(same_page)
    trace = opened(page, strategy)
    node = {n.node_id: n for s in trace.steps for n in getattr(s.detail, "pool", ())}
    if strategy == "beam_search":
        at, expected = node[trace.steps[-1].detail.winner_node_id], []
        while at:
            expected.insert(0, math.exp(at.logprob))
            at = node.get(at.parent_id)
    else:
        expected = []
        for step in trace.steps:
            accepted = [t.p for t in step.detail.tokens if t.status == "accepted"]
            own = [c for c in step.candidates if c.token_id == step.emit[-1]]
            expected += [*accepted, math.exp(own[0].raw_logprob)][: len(step.emit)]
    shown = [token["used"] for token in run_of(page, "replay", "tokens")[0]]
    assert shown == pytest.approx(expected, abs=1e-4)
