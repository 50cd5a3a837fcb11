"""What a step looked at, in the browser: asked by mouse and key, over text, nodes and a picture."""

from __future__ import annotations

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from engine.analysis import gallery
from engine.inspection.attention import Attention, AttentionWeights
from engine.inspection.influence import InfluenceQuestion, compute_influence
from engine.inspection.positions import Positions
from engine.trace.json_io import to_dict
from engine.trace.records import MediaInfo
from tests.helpers.pages import (
    drawn,
    finish,
    fits,
    link,
    select,
    shot,
    status,
    trace_of,
    view,
)

ROW = "Row, row, row your boat. Row, row, row your boat. Row, row,"
"""So often that a round copies several tokens of it."""


def card(page, strategy):
    return view(page.locator(f"#{strategy}-stage"), "looked")


def answered(found, kind):
    expect(found.locator(".lk-part h4").first).to_contain_text(kind)
    expect(found.locator(".lk-top .n").first).not_to_be_empty()


def percent(value):
    return f"{100 * value:.1f} %"


def recorded(page):
    expect(status(page, "greedy")).to_contain_text("A recorded run")
    entry = next(e for e in gallery.list_entries() if e.strategy == "greedy")
    page.locator("#greedy-stage .dp-tok[data-step='7']").click()
    drawn(page, "greedy")
    return gallery.open_entry(entry.file)


def test_a_recorded_run_shows_where_it_looked(open_page):
    page = open_page("/")
    trace = recorded(page)
    found = card(page, "greedy")
    expect(found.locator(".lk-say")).to_contain_text("Which earlier words mattered")
    found.get_by_role("button", name="Attention").click()
    answered(found, "Self-attention")
    part = compute_influence(trace, InfluenceQuestion(7)).parts[0]
    best = sorted(part.row(), reverse=True)
    expect(found.locator(".lk-top .n").first).to_have_text(percent(best[0]))
    expect(found.locator(".lk-tok")).to_have_count(len(part.positions.ids))
    shot(page, "looked-1440")
    # One head of one layer.
    found.get_by_label("Layer").select_option(index=3)
    found.get_by_label("Head").select_option(index=2)
    one = sorted(part.row(2, 1), reverse=True)
    expect(found.locator(".lk-top .n").first).to_have_text(percent(one[0]))
    # Another step is asked by itself.
    page.locator("#greedy-stage .dp-tok[data-step='3']").click()
    drawn(page, "greedy")
    other = compute_influence(trace, InfluenceQuestion(3)).parts[0]
    expect(found.locator(".lk-tok")).to_have_count(len(other.positions.ids))


@pytest.mark.nightly
def test_it_is_asked_and_read_with_the_keys_alone(open_page):
    page = open_page("/")
    trace = recorded(page)
    found = card(page, "greedy")
    found.get_by_role("button", name="Leave one out").press("Enter")
    answered(found, "The text so far")
    values = compute_influence(trace, InfluenceQuestion(7, "leave-one-out")).parts[0].values
    tokens = found.locator(".lk-tok")
    tokens.first.focus()
    page.keyboard.press("ArrowRight")
    expect(tokens.nth(1)).to_be_focused()
    said = f"{abs(values[1]):#.2g}"
    expect(found.locator(".inf-place")).to_contain_text(said)
    expect(found.locator(".inf-place")).to_contain_text("−" if values[1] < 0 else "+")
    page.keyboard.press("End")
    expect(tokens.last).to_be_focused()
    # Only one of them is on the way of Tab.
    assert found.locator(".lk-tok[tabindex='0']").count() == 1
    # What takes many passes waits to be asked again.
    page.locator("#greedy-stage .dp-tok[data-step='3']").click()
    drawn(page, "greedy")
    expect(found.locator(".lk-say")).to_contain_text("press again")
    expect(found.locator(".lk-tok")).to_have_count(0)


@pytest.mark.nightly
def test_story_fixer_shows_which_letters_made_a_word_on_a_telephone(open_page):
    address = link("greedy", "teh litle gril wnet home", "&model=storyfixer", max_new_tokens=8)
    page = open_page(address, width=390, height=844)
    finish(page, "greedy")
    page.locator("#greedy-stage .dp-tok[data-step]").nth(2).click()
    drawn(page, "greedy")
    found = card(page, "greedy")
    found.get_by_role("button", name="Attention").click()
    answered(found, "Cross-attention")
    trace = trace_of(page, "greedy")
    parts = compute_influence(trace, InfluenceQuestion(2)).parts
    expect(found.locator(".lk-part")).to_have_count(2)
    expect(found.locator(".lk-part").first.locator(".lk-tok")).to_have_count(len(trace.prompt_ids))
    best = max(parts[0].row())
    expect(found.locator(".lk-top .n").first).to_have_text(percent(best))
    assert fits(page)
    shot(page, "looked-390")
    shot(found, "looked-card-390")
    found.get_by_role("button", name="Gradient × input").click()
    answered(found, "What the encoder read")
    expect(found.locator(".lk-top .n").first).to_have_text(re.compile(r"^[+−]\d"))
    assert fits(page)
    shot(found, "looked-gradient-390")


@pytest.mark.nightly
def test_a_node_of_a_search_is_asked_about(open_page):
    page = open_page(link("beam_search", "One day, a little", max_new_tokens=5, num_beams=3))
    finish(page, "beam_search")
    trace = trace_of(page, "beam_search")
    tree = page.locator("#beam_search-stage .dp-v-beam_tree")
    step, node = tree.locator(".bt-node.sel").evaluate(
        "({ dpNode }) => [dpNode.column, dpNode.data.node_id]"
    )
    found = card(page, "beam_search")
    found.get_by_role("button", name="Attention").click()
    part = compute_influence(trace, InfluenceQuestion(step, node_id=node)).parts[0]
    expect(found.locator(".lk-tok")).to_have_count(len(part.positions.ids))
    expect(found.locator(".inf-token")).to_be_visible()


@pytest.mark.nightly
def test_every_token_of_a_round_can_be_asked_about(open_page):
    page = open_page(link("prompt_lookup", ROW, max_new_tokens=12))
    finish(page, "prompt_lookup")
    trace = trace_of(page, "prompt_lookup")
    step = max(trace.steps, key=lambda one: len(one.emit))
    assert len(step.emit) > 1, "no round wrote more than one token"
    select(page, "prompt_lookup", step.index)
    found = card(page, "prompt_lookup")
    found.get_by_role("button", name="Attention").click()
    for at in (None, 0):
        if at is not None:
            found.get_by_label("Token").select_option(index=at)
        part = compute_influence(trace, InfluenceQuestion(step.index, at=at)).parts[0]
        expect(found.locator(".lk-tok")).to_have_count(len(part.positions.ids))


@pytest.mark.nightly
def test_in_german_and_in_the_dark(open_page):
    page = open_page("/?lang=de&__theme=dark")
    page.locator("#greedy-stage .dp-tok[data-step='5']").click()
    drawn(page, "greedy")
    found = card(page, "greedy")
    found.get_by_role("button", name="Eins weglassen").click()
    expect(found.locator(".lk-caveat")).to_contain_text("niemand geschrieben")
    shot(page, "looked-dark-de")


@pytest.mark.nightly
def test_a_picture_has_its_numbers_in_its_parts(visit, monkeypatch):
    """The answer is that of a model that reads pictures, of a run that keeps a small one."""
    weights = np.linspace(0, 0.12, 13, dtype=np.float32)[None, None]
    positions = Positions("patches", 13, grid=(3, 4), leading=1)
    cross = AttentionWeights("cross", positions, weights)
    found = Attention(5, " dog", -1.0, (cross, looked_at_text()))
    monkeypatch.setattr("playground.inspect.influence.compute_influence", lambda *asked: found)
    page = visit("/")
    recorded(page)
    page.evaluate(
        "given => { playground.page.shown('greedy').media = [given]; }",
        given_picture(),
    )
    inside = card(page, "greedy")
    inside.get_by_role("button", name="Attention").click()
    cells = inside.locator(".lk-cell")
    expect(cells).to_have_count(12)
    assert inside.locator(".lk-picture img").evaluate("image => image.naturalWidth") == 120
    cells.nth(11).focus()
    expect(inside.locator(".inf-place").first).to_have_text("row 3, column 4: 12.0 %")
    expect(cells.nth(11)).to_have_text("1")
    page.keyboard.press("ArrowUp")
    expect(cells.nth(7)).to_be_focused()
    expect(inside.locator(".lk-part")).to_have_count(2)
    shot(inside, "looked-picture")


def looked_at_text():
    text = Positions("text", 2, (1, 5), ("<s>", " a"))
    return AttentionWeights("self", text, np.array([[[0.75, 0.25]]], dtype=np.float32))


def given_picture():
    """Return what a trace says of a picture, as JSON values."""
    small = io.BytesIO()
    Image.linear_gradient("L").convert("RGB").resize((120, 90)).save(small, "JPEG")
    preview = base64.b64encode(small.getvalue()).decode()
    return to_dict(MediaInfo("image", "0" * 64, width=120, height=90, preview=preview))
