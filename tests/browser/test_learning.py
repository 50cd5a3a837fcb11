"""Words that explain themselves, formulas with a step's numbers, and the draw as a picture."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from playwright.sync_api import expect

from engine.analysis import gallery
from engine.glossary import TERMS
from engine.strategies import STRATEGIES
from tests.helpers.axe import grave
from tests.helpers.pages import fits, settled, shot, show, view
from tests.helpers.patience import PATIENCE_MS
from visualizers.page import page as page_of

BOX = ".dp-tooltip"
FORMULAS = [name for name, strategy in STRATEGIES.items() if "formula" in strategy.visuals]
INSIDE = """(box) => { const { left, right, top, bottom } = box.getBoundingClientRect();
  return left >= 0 && top >= 0 && right <= innerWidth && bottom <= innerHeight; }"""


def first_of(strategy):
    entry = next(e for e in gallery.list_entries() if e.strategy == strategy)
    return gallery.open_entry(entry.file)


@pytest.fixture
def saved(browser, tmp_path):
    """Open a run as a page of its own, which no server knows."""
    pages, problems = [], []

    @contextmanager
    def opener(strategy, width=1000, dark=False, **options):
        trace = first_of(strategy)
        alone = browser.new_page(viewport={"width": width, "height": 900}, **options)
        alone.set_default_timeout(PATIENCE_MS)
        alone.on("pageerror", lambda error: problems.append(str(error)))
        alone.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
        pages.append(alone)
        alone.goto(page_of(trace, dark=dark).save(tmp_path / f"{strategy}.html").as_uri())
        expect(alone.locator(".dp-tok[data-step]").first).to_be_visible()
        yield alone, trace

    yield opener
    for alone in pages:
        alone.close()
    assert not problems


def choose(page, word):
    page.locator(".dp-tok[data-step]").nth(word).click()
    expect(page.locator(".dp-v-scrub output")).to_contain_text(f"Word {word + 1} of")


def in_the_way(page):
    settled(page)
    return grave(page)


def test_a_word_is_explained_to_the_keyboard_and_to_a_screen_reader(saved):
    with saved("sampling") as (page, _):
        figures = view(page, "figures")
        word = figures.get_by_role("button", name="perplexity", exact=True)
        about = TERMS["perplexity"]
        expect(word).to_have_accessible_description(f"{about.says} {about.beware}")
        expect(page.locator(BOX)).to_be_hidden()
        word.focus()
        box = page.get_by_role("tooltip")
        expect(box).to_contain_text("Perplexity is not quality")
        assert box.evaluate(INSIDE)
        assert in_the_way(page) == []
        shot(page, "term")
        page.keyboard.press("Escape")
        expect(page.locator(BOX)).to_be_hidden()
        expect(word).to_be_focused()
        page.keyboard.press("Tab")
        page.keyboard.press("Shift+Tab")
        expect(box).to_be_visible()
        page.keyboard.press("Tab")
        expect(page.locator(BOX)).not_to_contain_text("Perplexity is not quality")


@pytest.mark.nightly
def test_the_box_stays_while_it_is_pointed_at_and_goes_with_the_pointer(saved):
    with saved("sampling") as (page, _):
        word = page.get_by_role("button", name="Surprise", exact=True).first
        word.hover()
        box = page.locator(BOX)
        expect(box).to_contain_text("surprising token is not a wrong one")
        place, around = word.bounding_box(), box.bounding_box()
        x = place["x"] + place["width"] / 2
        below = around["y"] >= place["y"]
        page.mouse.move(x, around["y"] + (3 if below else around["height"] - 3), steps=4)
        page.mouse.move(x, around["y"] + around["height"] / 2, steps=4)
        expect(box).to_be_visible()
        page.keyboard.press("Escape")
        expect(box).to_be_hidden()
        word.hover()
        expect(box).to_be_visible()
        page.mouse.move(2, 2)
        expect(box).to_be_hidden()


def _every_second_is_inside(page, words, least):
    # A panel that was opened is drawn a little later.
    expect(words.nth(least)).to_be_attached()
    for i in range(0, words.count(), 2):
        word = words.nth(i)
        word.scroll_into_view_if_needed()
        word.tap()
        box = page.locator(BOX)
        expect(box).to_be_visible()
        assert box.evaluate(INSIDE), word.text_content()
        # The box lies over what stands below its word.
        page.keyboard.press("Escape")
        expect(box).to_be_hidden()


@pytest.mark.nightly
def test_on_a_telephone_every_box_stays_inside_the_window(saved):
    with saved("watermark", width=390, has_touch=True) as (page, _):
        view(page, "figures")
        _every_second_is_inside(page, page.locator(".dp-main .dp-term:visible"), 4)
        page.locator("h1").tap()
        expect(page.locator(BOX)).to_be_hidden()
        page.locator(".dp-tok[data-step='2']").tap()
        view(page, "formula")
        _every_second_is_inside(page, page.locator(".dp-v-formula .dp-term:visible"), 3)
        assert fits(page)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "strategy", ["sampling", *(name for name in FORMULAS if name != "sampling")]
)
def test_formulas_are_typeset_and_said_with_the_numbers_of_the_step(saved, strategy):
    with saved(strategy, width=1000) as (page, trace):
        card = view(page, "formula")
        before = {}
        worth_seeing = next(e.look_at for e in gallery.list_entries() if e.strategy == strategy)
        for step in (worth_seeing - 1, len(trace.steps) - 1):
            made = trace.steps[step]
            choose(page, made.keep + len(made.emit) - 1)
            formulas = card.get_by_role("math")
            expect(formulas.nth(1)).to_be_attached()
            name = formulas.first.get_attribute("aria-label")
            assert " equals " in name or " is at most " in name
            assert formulas.first.evaluate("n => n.namespaceURI").endswith("MathML")
            # It is drawn as a formula: a fraction stands higher than a line of text.
            before[step] = card.locator(".numbers").all_text_contents()
        assert len(set(map(tuple, before.values()))) == 2
        assert fits(page)
        wide = card.locator(".fm-line").evaluate_all(
            "lines => lines.filter((n) => n.scrollWidth > n.clientWidth && n.tabIndex < 0).length"
        )
        assert wide == 0
        assert in_the_way(page) == []
        shot(card, f"formula_{strategy}")


COUNT = """() => { window.runs = 0; document.addEventListener("animationstart", (event) => {
  if (event.animationName === "rc-run") window.runs += 1; }, true); }"""


@pytest.mark.nightly
def test_a_race_runs_once_for_a_step(saved):
    with saved("sampling") as (page, trace):
        page.evaluate(COUNT)
        card, runners = view(page, "draw"), 0
        for step, fresh in ((3, True), (4, True), (3, False), (4, False)):
            choose(page, step)
            expect(card.locator(".rc-race")).to_be_visible()
            # What still has to run, or runs, has its mark.
            expect(card.locator(".rc-race.rc-run")).to_have_count(0)
            runners += len(trace.steps[step].detail.racers) * fresh
            assert page.evaluate("window.runs") >= runners
        last = len(trace.steps[-1].detail.racers)
        assert page.evaluate("window.runs") in (runners, runners + last)


@pytest.mark.nightly
def test_no_race_runs_for_who_wants_none(saved):
    with saved("sampling", reduced_motion="reduce") as (page, _):
        page.evaluate(COUNT)
        card = view(page, "draw")
        choose(page, 4)
        expect(card.locator(".rc-race")).to_be_visible()
        settled(page)
        assert page.evaluate("window.runs") == 0


@pytest.mark.nightly
@pytest.mark.parametrize("dark", [False, True])
def test_a_draw_is_a_race_with_its_numbers_behind_it(saved, dark):
    with saved("sampling", width=400, dark=dark) as (page, trace):
        page.locator('.dp-tok[data-step="4"]').click()
        card = view(page, "draw")
        racers = trace.steps[4].detail.racers
        expect(card.locator(".rc-mark")).to_have_count(len(racers))
        expect(card.locator(".rc-label.on")).to_contain_text("wins")
        expect(card.get_by_role("img", name="Arrivals")).to_be_visible()
        card.get_by_text("The numbers behind it").click()
        expect(card.locator("tbody tr")).to_have_count(len(racers))
        settled(page)
        places = card.locator(".rc-mark").evaluate_all(
            "all => all.map((n) => n.getBoundingClientRect().left)"
        )
        assert places == sorted(places)
        assert in_the_way(page) == []
        shot(card, f"draw{'_dark' if dark else ''}")


@pytest.mark.nightly
@pytest.mark.parametrize("strategy", ["greedy", "beam_search", "contrastive_search", "dola"])
def test_where_nothing_is_drawn_one_sentence_says_so(saved, strategy):
    with saved(strategy) as (page, _):
        card = view(page, "draw")
        expect(card.get_by_text("Nothing was drawn at this step")).to_be_visible()
        expect(card.locator(".rc-race, .sl-strip")).to_have_count(0)


@pytest.mark.nightly
def test_a_setting_is_explained_next_to_its_name(open_page):
    page = open_page()
    show(page, "sampling")
    expect(page.locator("#page-sampling").get_by_label("Top-p", exact=True).first).to_be_visible()
    helped = page.locator("#page-sampling .f-dial-help")
    mark = helped.get_by_role("button", name="What is meant by top-p")
    mark.focus()
    expect(page.locator(BOX)).to_contain_text("nucleus sampling")
    assert page.locator(BOX).evaluate(INSIDE)
    page.keyboard.press("Escape")
    expect(page.locator(BOX)).to_be_hidden()
