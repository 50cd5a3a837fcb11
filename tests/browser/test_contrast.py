"""Contrastive search and DoLa in the browser: drawn live, scrubbed, switched, clicked, on a telephone."""

from __future__ import annotations

import math
import re

import pytest
from playwright.sync_api import expect

from engine.strategies.base import STORY
from tests.helpers.pages import feed, finish, fits, link, piece, run_of, select, shot, view

VISUAL = {"contrastive_search": "contrastive", "dola": "layer_heatmap"}
PARAMS = {
    "contrastive_search": {"max_new_tokens": 40, "penalty_alpha": 0.6, "top_k": 6},
    "dola": {"max_new_tokens": 30, "dola_layers": "high", "repetition_penalty": 1.2},
}
PROMPT = {
    "contrastive_search": "Row, row, row your boat. Row, row,",
    "dola": STORY,
}


def decoded(open_page, strategy, suffix="", size=None, **changes):
    """Follow a link, which runs the strategy; return the page and its finished visual."""
    params = {**PARAMS[strategy], **changes}
    page = open_page(link(strategy, PROMPT[strategy], suffix, **params), **(size or {}))
    finish(page, strategy)
    visual = view(page.locator(f"#{strategy}-stage"), VISUAL[strategy])
    folded = visual.locator(".lh-about:not([open]) > summary")
    if folded.count():
        folded.click()
    return page, visual


def test_every_candidate_has_bars_and_an_arc(same_page):
    page, visual = decoded(same_page, "contrastive_search")
    steps = run_of(page, "contrastive_search", "steps")
    changed = [i for i, step in enumerate(steps) if step["detail"]["chosen"] != 0]
    assert changed, "similarity never mattered on this prompt"
    expect(visual.locator(".cs-chip")).to_have_count(len(changed))
    expect(visual.locator(".cs-total")).to_contain_text(f"{len(changed)} of {len(steps)} steps")
    visual.locator(".cs-chip").first.click()
    detail = steps[changed[0]]["detail"]
    options, winner = detail["options"], detail["options"][detail["chosen"]]
    expect(visual.locator(".cs-row")).to_have_count(len(options))
    expect(visual.locator(".cs-row.on .t")).to_have_text(
        piece(page, "contrastive_search", winner["token_id"])
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


@pytest.mark.nightly
def test_the_arc_ends_at_the_similar_token_and_focus_marks_it(same_page):
    page, visual = decoded(same_page, "contrastive_search")
    steps = run_of(page, "contrastive_search", "steps")
    select(page, "contrastive_search", 20)
    detail = steps[20]["detail"]
    winner = detail["options"][detail["chosen"]]
    target = visual.locator(f'.cs-line .tok[title="token {winner["position"] + 1}"]')
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


@pytest.mark.nightly
def test_the_map_shows_every_layer_and_the_column_of_a_step(same_page):
    page, visual = decoded(same_page, "dola")
    steps = run_of(page, "dola", "steps")
    plot = visual.locator(".lh-plot")
    expect(plot).to_have_attribute("data-steps", str(len(steps)))
    drawn = plot.evaluate("p => p.data[0].z.map((row) => row.length)")
    assert drawn == [len(steps)] * 17
    # It opens on the picture that says most: ranks, the final norm applied.
    ranks = [step["detail"]["layers"][14]["normed_rank"] for step in steps]
    assert [round(10**z - 1) for z in plot.evaluate("p => p.data[0].z[14]")] == ranks
    expect(visual).to_contain_text("Jensen–Shannon divergence")
    select(page, "dola", 11)
    detail = steps[11]["detail"]
    expect(visual.locator(".lh-table tbody tr")).to_have_count(17)
    expect(visual.locator(".lh-table tr.on th")).to_have_text(str(detail["premature_layer"]))
    expect(visual.locator(".lh-contrast")).to_contain_text(f"compete: {detail['kept']} of 4,096")
    expect(visual.locator(".lh-contrast li.on")).to_have_count(
        sum(
            steps[11]["emit"][0] in [pair[0] for pair in detail[k]]
            for k in ("final_top", "contrast_top")
        )
    )
    expect(visual.locator(".lh-warn")).to_contain_text("Not advised for small models")
    shot(visual, "layer_heatmap")


@pytest.mark.nightly
def test_switching_value_and_projection_redraws_from_the_record(same_page):
    page, visual = decoded(same_page, "dola")
    steps = run_of(page, "dola", "steps")
    plot, picks = visual.locator(".lh-plot"), visual.locator(".lh-pick")
    for value in ("entropy", "rank", "logprob", "divergence"):
        for projection, prefix in (("normed", "normed_"), ("raw", "")):
            picks.nth(0).select_option(value)
            picks.nth(1).select_option(projection)
            expect(plot).to_have_attribute("data-view", f"{value} {projection}")
            expect(visual).to_contain_text(
                "with the final norm applied (" if prefix else "as DoLa projects it ("
            )
            row = plot.evaluate("p => p.data[0].z[3]")
            numbers = [step["detail"]["layers"][3][prefix + value] for step in steps]
            if value == "divergence":
                assert row == numbers
            elif value == "entropy":
                assert row == pytest.approx([n / math.log(2) for n in numbers], rel=1e-2, abs=1e-4)
            elif value == "rank":
                assert [round(10**z - 1) for z in row] == numbers
            else:
                assert row == [max(-20, number) for number in numbers]


@pytest.mark.nightly
def test_a_click_on_a_cell_shows_its_top_tokens(same_page):
    page, visual = decoded(same_page, "dola")
    plot = visual.locator(".lh-plot")
    expect(plot).to_have_attribute("data-steps", "30")
    plot.scroll_into_view_if_needed()
    at = plot.evaluate(
        "p => { const f = p._fullLayout, b = p.getBoundingClientRect();"
        " return [b.x + f.xaxis._offset + f.xaxis.c2p(6), b.y + f.yaxis._offset + f.yaxis.c2p(9)]; }"
    )
    page.mouse.move(*at)
    expect(plot.locator(".hoverlayer")).to_contain_text("step 6, layer 9")
    page.mouse.click(*at)
    expect(visual.locator(".lh-cell")).to_contain_text("Step 6, layer 9")
    top = run_of(page, "dola", "steps")[5]["detail"]["layers"][9]["top"]
    expect(visual.locator(".lh-cell")).to_contain_text("“" + piece(page, "dola", top[0][0]) + "”")
    expect(page.locator("#dola-stage .dp-scrub output")).to_have_text("Word 6 of 30")


@pytest.mark.nightly
def test_tokens_are_text_in_the_map(open_page):
    page, visual = decoded(open_page, "dola")
    plot = visual.locator(".lh-plot")
    expect(plot).to_have_attribute("data-steps", "30")
    page.evaluate(
        "() => { const r = playground.page.shown('dola');"
        " for (const id of Object.keys(r.pieces)) r.pieces[id] = '<img src=x onerror=window.hit=1><b>b</b>'; }"
    )
    visual.locator(".lh-pick").first.select_option("entropy")
    expect(plot).to_have_attribute("data-view", "entropy normed")
    assert "&lt;img" in plot.evaluate("p => p.data[0].text[2][2]")
    select(page, "dola", 3)
    expect(visual.locator(".lh-column")).to_contain_text("<img src=x")
    assert visual.locator("img").count() == 0
    assert page.evaluate("window.hit") is None


@pytest.mark.nightly
def test_the_map_grows_while_steps_arrive(open_page):
    page, visual = decoded(open_page, "dola", max_new_tokens=24, min_new_tokens=24)
    assert run_of(page, "dola", "next") >= 4, "a start, the map in pieces, an end"
    feed(page, "dola", "() => 0")
    # The run that was fed has no end: what the map shows now, it shows while one is going on.
    assert run_of(page, "dola", "status") == "running"
    expect(visual.locator(".lh-plot")).to_have_attribute("data-steps", "24")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("strategy", "theme"), [("contrastive_search", "&__theme=dark"), ("dola", "")]
)
def test_phone_width_has_no_sideways_scroll(open_page, strategy, theme):
    page, visual = decoded(open_page, strategy, theme, {"width": 390, "height": 844})
    select(page, strategy, 15)
    expect(visual).to_be_visible()
    assert fits(page)
    for box in visual.locator(".dp-note, .cs-row, .lh-pair li, .lh-pick").all():
        bounds = box.bounding_box()
        assert bounds is None or bounds["x"] + bounds["width"] <= 390
    shot(visual, f"{VISUAL[strategy]}_telephone{'_dark' if theme else ''}")


@pytest.mark.nightly
def test_bad_layers_show_one_sentence(open_page):
    page = open_page(link("dola", STORY, dola_layers=[99]))
    expect(page.locator("#dola-stage .dp-v-status .dp-status")).to_contain_text(
        "dola_layers = [99] is not allowed"
    )
