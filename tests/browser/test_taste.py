"""The blind taste test in the browser: ten votes by key, nothing that tells before, a live pair, a telephone."""

from __future__ import annotations

import json
import math
import re

import pytest
from playwright.sync_api import expect

from engine.analysis import examples, taste
from engine.statistics.sign_test import sign_test
from engine.strategies import STRATEGIES
from tests.helpers.nightly import mark_nightly
from tests.helpers.pages import fits, shot

TITLES = [STRATEGIES[name].title for name, _ in taste.TASTE_STRATEGIES]
TEXTS = {
    (entry["prompt"], text["text"]): text
    for entry in examples.load_continuations()["prompts"]
    for text in entry["texts"]
}


def opened(open_page, **size):
    page = open_page("/?tab=taste", **size)
    expect(page.locator("#taste-stage .ts-text")).to_have_count(2)
    return page, page.locator("#taste-stage")


def sides(stage):
    """Return the two texts of the pair that is shown, as they were recorded."""
    found = []
    for card in stage.locator(".ts-text p").all():
        prompt = card.locator(".dp-prompt").inner_text()
        found.append(TEXTS[prompt, card.evaluate("n => n.lastChild.textContent")])
    return found


@pytest.mark.parametrize(
    "size", [{}, *mark_nightly([{"width": 390, "height": 844}])], ids=["wide", "phone"]
)
def test_ten_votes_by_key_and_what_they_come_to(open_page, size):
    page, stage = opened(open_page, **size)
    votes = []
    for number in range(10):
        expect(stage.locator(".ts-title")).to_contain_text(f"Pair {number + 1} of 10")
        html = stage.evaluate("n => n.outerHTML")
        assert not any(title in html for title in TITLES)
        assert not re.search("perplexity|greedy|sampling|beam|contrastive", html)
        pair, vote = sides(stage), (0, 1, None)[number % 3]
        assert pair[0]["text"] != pair[1]["text"]
        votes.append((pair, vote))
        stage.locator(".ts-title").focus()
        page.keyboard.press({0: "1", 1: "2", None: "0"}[vote])
    expect(stage.locator(".ts-title")).to_have_text("What your ten votes came to")
    assert fits(page)
    shot(page, f"taste-{'phone' if size else 'wide'}")
    for at, name in enumerate(("perplexity", "rep_3", "tokens")):
        told = [(p, v) for p, v in votes if v is not None and p[0][name] != p[1][name]]
        less = sum(p[v][name] < p[1 - v][name] for p, v in told)
        note = stage.locator(".ts-measure .dp-note").nth(at)
        expect(note).to_contain_text(f"Of {len(told)} votes that differ in it, {less} went")
        if told:
            p_value = float(re.search(r"p-value ([\d.]+):", note.inner_text())[1])
            expected = sign_test(less, len(told))
            # Two decimals, or two digits of a small value; a half is rounded up.
            scale = 10 ** max(2, 1 - math.floor(math.log10(expected)))
            shown = math.floor(scale * expected + 0.5) / scale
            assert p_value == pytest.approx(shown, abs=1e-9)
    won = sum(v is not None for _, v in votes)
    expect(stage.locator(".ts-lead")).to_contain_text(f"in {won} of 10 pairs")
    # They stay in this browser, and one begins anew by oneself.
    page.reload()
    expect(stage.locator(".ts-title")).to_have_text("What your ten votes came to")
    stage.get_by_role("button", name="Ten more pairs").click()
    expect(stage.locator(".ts-title")).to_contain_text("Pair 1 of 10")
    assert json.loads(page.evaluate("localStorage.getItem('dp-taste')")) == []


@pytest.mark.nightly
def test_two_strategies_of_ones_choice_write_one_more_pair(open_page):
    page, stage = opened(open_page)
    page.locator("#taste-prompt textarea").fill("The old bear")
    page.locator("#taste-run").click()
    expect(stage.locator(".ts-text .dp-prompt").first).to_have_text("The old bear")
    assert not any(title in stage.evaluate("n => n.outerHTML") for title in TITLES)
    stage.get_by_role("button", name="Left").click()
    expect(stage.locator(".ts-last-vote")).to_contain_text("the left one")
    [vote] = json.loads(page.evaluate("localStorage.getItem('dp-taste')"))
    assert {text["strategy"] for text in vote["texts"]} == {"greedy", "sampling"}
    page.locator("#taste-prompt textarea").fill("")
    page.locator("#taste-run").click()
    expect(stage.locator(".dp-status")).to_contain_text("write 1 to 8000")
