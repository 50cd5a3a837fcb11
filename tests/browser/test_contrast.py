"""Contrastive search and DoLa in the browser: drawn live, scrubbed, switched, clicked, on a telephone."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from engine.strategies.base import STORY
from tests.browser.test_playground import finish

SHOTS = os.environ.get("PLAYGROUND_SCREENSHOTS")
VISUAL = {"contrastive_search": "contrastive", "dola": "layer_heatmap"}
PARAMS = {
    "contrastive_search": {"max_new_tokens": 40, "penalty_alpha": 0.6, "top_k": 6},
    "dola": {"max_new_tokens": 30, "dola_layers": "high", "repetition_penalty": 1.2},
}
PROMPT = {
    "contrastive_search": "Row, row, row your boat. Row, row,",
    "dola": STORY,
}
WATCH = """() => { window.gap = 0; window.seen = []; let last = performance.now();
  const tick = (now) => { window.gap = Math.max(window.gap, now - last); last = now; requestAnimationFrame(tick); };
  requestAnimationFrame(tick);
  const plot = document.querySelector("#dola-stage .lh-plot");
  const observer = new MutationObserver(() => window.seen.push(+plot.dataset.steps));
  observer.observe(plot, { attributeFilter: ["data-steps"] }); }"""


def link(strategy, **changes):
    params = json.dumps({**PARAMS[strategy], **changes})
    return "/?" + urlencode({"strategy": strategy, "prompt": PROMPT[strategy], "params": params})


def decoded(open_page, strategy, suffix="", **size):
    """Follow a link, which runs the strategy; return the page and its finished visual."""
    page = open_page(link(strategy) + suffix, **size)
    finish(page, strategy)
    return page, page.locator(f"#{strategy}-stage .dp-v-{VISUAL[strategy]}")


def steps_of(page, strategy):
    return page.evaluate("s => DP.runs.get(DP.runId(s)).steps", strategy)


def select(page, strategy, index):
    page.evaluate("([s, i]) => DP.select(DP.runs.get(DP.runId(s)), i)", [strategy, index])


def name(page, strategy, token):
    return page.evaluate("([s, t]) => DP.piece(DP.runs.get(DP.runId(s)), t)", [strategy, token])


def shot(visual, label):
    """Keep a picture for people, never compared."""
    if SHOTS:
        visual.screenshot(path=Path(SHOTS) / f"{label}.png")


def test_every_candidate_has_bars_and_an_arc(same_page):
    page, visual = decoded(same_page, "contrastive_search")
    steps = steps_of(page, "contrastive_search")
    changed = [i for i, step in enumerate(steps) if step["detail"]["chosen"] != 0]
    assert changed, "similarity never mattered on this prompt"
    expect(visual.locator(".cs-chip")).to_have_count(len(changed))
    expect(visual.locator(".cs-total")).to_contain_text(f"{len(changed)} of {len(steps)} steps")
    visual.locator(".cs-chip").first.click()
    detail = steps[changed[0]]["detail"]
    options, winner = detail["options"], detail["options"][detail["chosen"]]
    expect(visual.locator(".cs-row")).to_have_count(len(options))
    expect(visual.locator(".cs-row.on .t")).to_have_text(
        name(page, "contrastive_search", winner["token_id"])
    )
    expect(visual.locator(".cs-arcs path")).to_have_count(len(options))
    expect(visual.locator(".cs-arcs path.on")).to_have_count(1)
    # Bars are to one scale: pixels of confidence and penalty in the ratio of the numbers.
    bar = visual.locator(".cs-row.on .cs-bar")
    whole = bar.bounding_box()["width"]
    assert bar.locator(".conf").bounding_box()["width"] == pytest.approx(
        whole * winner["confidence"], abs=1
    )
    assert bar.locator(".pen").bounding_box()["width"] == pytest.approx(
        whole * winner["degeneration_penalty"], abs=1
    )
    shot(visual, "contrastive")


def test_the_arc_ends_at_the_similar_token_and_focus_marks_it(same_page):
    page, visual = decoded(same_page, "contrastive_search")
    steps = steps_of(page, "contrastive_search")
    select(page, "contrastive_search", 20)
    detail = steps[20]["detail"]
    winner = detail["options"][detail["chosen"]]
    target = visual.locator(f'.cs-line .tok[title="position {winner["position"]}"]')
    expect(target).to_have_class(re.compile("linked"))
    path = visual.locator(".cs-arcs path.on")
    end = path.evaluate("p => p.getPointAtLength(p.getTotalLength()).x")
    middle = target.evaluate("t => t.offsetLeft + t.offsetWidth / 2")
    assert end == pytest.approx(middle, abs=1)
    visual.locator(".cs-row").first.focus()
    expect(visual.locator(".cs-arcs path.hot")).to_have_count(1)
    visual.get_by_text("Table of every candidate").click()
    expect(visual.locator(".cs-more tbody tr")).to_have_count(
        sum(len(step["detail"]["options"]) for step in steps)
    )


def test_the_map_shows_every_layer_and_the_column_of_a_step(same_page):
    page, visual = decoded(same_page, "dola")
    steps = steps_of(page, "dola")
    plot = visual.locator(".lh-plot")
    expect(plot).to_have_attribute("data-steps", str(len(steps)), timeout=20_000)
    drawn = plot.evaluate("p => p.data[0].z.map((row) => row.length)")
    assert drawn == [len(steps)] * 17
    divergence = plot.evaluate("p => p.data[0].z[14]")
    assert divergence == [step["detail"]["layers"][14]["divergence"] for step in steps]
    select(page, "dola", 11)
    detail = steps[11]["detail"]
    expect(visual.locator(".lh-table tbody tr")).to_have_count(17)
    expect(visual.locator(".lh-table tr.on th")).to_have_text(str(detail["premature_layer"]))
    expect(visual.locator(".lh-contrast")).to_contain_text(f"Mask: {detail['kept']} of 4,096")
    expect(visual.locator(".lh-contrast li.on")).to_have_count(
        sum(
            steps[11]["emit"][0] in [pair[0] for pair in detail[k]]
            for k in ("final_top", "contrast_top")
        )
    )
    expect(visual.locator(".lh-warn")).to_contain_text("Not advised for small models")
    shot(visual, "layer_heatmap")


def test_switching_value_and_projection_redraws_from_the_record(same_page):
    page, visual = decoded(same_page, "dola")
    steps = steps_of(page, "dola")
    plot, picks = visual.locator(".lh-plot"), visual.locator(".lh-pick")
    for value in ("entropy", "rank", "logprob", "divergence"):
        for projection, prefix in (("normed", "normed_"), ("raw", "")):
            picks.nth(0).select_option(value)
            picks.nth(1).select_option(projection)
            expect(plot).to_have_attribute("data-view", f"{value} {projection}", timeout=20_000)
            expect(visual).to_contain_text(
                "with the final norm applied (" if prefix else "as DoLa projects it ("
            )
            row = plot.evaluate("p => p.data[0].z[3]")
            numbers = [step["detail"]["layers"][3][prefix + value] for step in steps]
            if value in ("entropy", "divergence"):
                assert row == numbers
            elif value == "rank":
                assert [round(10**z - 1) for z in row] == numbers
            else:
                assert row == [max(-20, number) for number in numbers]


def test_a_click_on_a_cell_shows_its_top_tokens(same_page):
    page, visual = decoded(same_page, "dola")
    plot = visual.locator(".lh-plot")
    expect(plot).to_have_attribute("data-steps", "30", timeout=20_000)
    plot.scroll_into_view_if_needed()
    at = plot.evaluate(
        "p => { const f = p._fullLayout, b = p.getBoundingClientRect();"
        " return [b.x + f.xaxis._offset + f.xaxis.c2p(6), b.y + f.yaxis._offset + f.yaxis.c2p(9)]; }"
    )
    page.mouse.move(*at)
    expect(plot.locator(".hoverlayer")).to_contain_text("step 6, layer 9")
    page.mouse.click(*at)
    expect(visual.locator(".lh-cell")).to_contain_text("Step 6, layer 9")
    top = steps_of(page, "dola")[5]["detail"]["layers"][9]["top"]
    expect(visual.locator(".lh-cell")).to_contain_text("“" + name(page, "dola", top[0][0]) + "”")
    expect(page.locator("#dola-stage .dp-scrub output")).to_have_text("step 6 of 30")


def test_tokens_are_text_in_the_map(open_page):
    page, visual = decoded(open_page, "dola")
    plot = visual.locator(".lh-plot")
    expect(plot).to_have_attribute("data-steps", "30", timeout=20_000)
    page.evaluate(
        "() => { const r = DP.runs.get(DP.runId('dola'));"
        " for (const id of Object.keys(r.pieces)) r.pieces[id] = '<img src=x onerror=window.hit=1><b>b</b>'; }"
    )
    visual.locator(".lh-pick").first.select_option("rank")
    expect(plot).to_have_attribute("data-view", "rank raw", timeout=20_000)
    assert "&lt;img" in plot.evaluate("p => p.data[0].text[2][2]")
    select(page, "dola", 3)
    expect(visual.locator(".lh-column")).to_contain_text("<img src=x")
    assert visual.locator("img").count() == 0
    assert page.evaluate("window.hit") is None


def test_two_hundred_steps_of_sixteen_layers_do_not_freeze_the_page(open_page):
    page = open_page(link("dola", max_new_tokens=200, eos_token_id=[4095]))
    finish(page, "dola")
    page.evaluate(WATCH)
    page.locator("#dola-run").click()
    page.wait_for_function("() => DP.runs.get(DP.runId('dola')).status === 'running'")
    finish(page, "dola")
    plot = page.locator("#dola-stage .lh-plot")
    expect(plot).to_have_attribute("data-steps", "200", timeout=20_000)
    gap, seen = page.evaluate("[window.gap, window.seen]")
    live = [steps for steps in seen if 0 < steps < 200]
    assert len(live) >= 4, "the map did not grow while decoding"
    assert gap < 1000, f"the page stood still for {gap:.0f} ms"


@pytest.mark.parametrize(
    ("strategy", "theme"), [("contrastive_search", "&__theme=dark"), ("dola", "")]
)
def test_phone_width_has_no_sideways_scroll(open_page, strategy, theme):
    page, visual = decoded(open_page, strategy, theme, width=390, height=844)
    select(page, strategy, 15)
    expect(visual).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for box in visual.locator(".dp-note, .cs-row, .lh-pair li, .lh-pick").all():
        bounds = box.bounding_box()
        assert bounds is None or bounds["x"] + bounds["width"] <= 390
    shot(visual, f"{VISUAL[strategy]}_telephone{'_dark' if theme else ''}")


def test_bad_layers_show_one_sentence(open_page):
    page = open_page(link("dola", dola_layers=[99]))
    expect(page.locator("#dola-stage .dp-v-status .dp-status")).to_contain_text(
        "dola_layers = [99] is not allowed", timeout=60_000
    )
