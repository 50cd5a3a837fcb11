"""Lessons as somebody goes through them: alone, in front of a room, on paper, with one of their own."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect
from pypdf import PdfReader

from engine.lessons import library
from engine.lessons.answer_key import LessonWithRuns
from engine.lessons.lesson_parser import parse_lesson
from playground.forms.lesson_data import answer_text, card_after_bet, card_before_bet
from playground.forms.markdown import tree_text
from tests.helpers.pages import address, shot

NAMES = sorted(library.list_lesson_files())
LONGEST = max(
    NAMES, key=lambda name: len(library.load_lesson(library.find_lesson_file(name).path).cards)
)
SCREENS = [(1920, 1080), (1024, 768)]
# What is cut, or has to be scrolled, of a card on the whole screen; and its smallest letters.
_CUT = """() => [".ls-body", ".ls-words", ".ls-scenes", ".ls-present"].filter((name) => {
  const node = document.querySelector(name.startsWith(".ls-p") ? name : `.ls-present ${name}`);
  return node && (node.scrollHeight > node.clientHeight + 2 || node.scrollWidth > node.clientWidth + 2);
})"""
_SMALL = """() => Math.min(...[...document.querySelectorAll(
  ".ls-present :is(.ls-title, .ls-situation, .ls-bet legend, .ls-text, .ls-reveal, .ls-verdict, .ls-myth)")]
  .filter((node) => node.getClientRects().length).map((node) => parseFloat(getComputedStyle(node).fontSize)))"""
_SETTLED = """() => new Promise((done) => { let last = "", same = 0; const look = () => {
  const now = document.querySelector(".ls-present").style.fontSize
    + (document.querySelector(".ls-present .ls-scenes")?.style.zoom ?? "");
  same = now === last ? same + 1 : 0; last = now;
  if (same > 20 && now) done(true); else requestAnimationFrame(look); }; look(); })"""


def lesson_page(open_page, name, card=1, language="en", **options):
    page = open_page(f"/?tab=lessons&lesson={name}&card={card}&in={language}", **options)
    expect(page.locator(".ls-lesson")).to_be_visible()
    expect(page.locator(".ls-where")).to_have_text(
        f"Card {card} of {len(opened(name).lesson.cards)}"
    )
    return page


def opened(name) -> LessonWithRuns:
    return library.open_lesson(library.find_lesson_file(name))


def focused(page, inside):
    return page.evaluate("(where) => document.activeElement?.closest(where) !== null", inside)


def tab_to(page, where, key="Tab"):
    """Press Tab until the focus is somewhere."""
    for _ in range(60):
        if focused(page, where):
            return
        page.keyboard.press(key)
    raise AssertionError(f"{where} cannot be reached with the keyboard")


def bet_with_keys(page, kind):
    if kind in ("token", "truth", "choice"):
        tab_to(page, ".ls-option input")
        page.keyboard.press("Space")
    elif kind == "number":
        tab_to(page, ".ls-track input")
        page.keyboard.press("ArrowRight")
    elif kind == "order":
        tab_to(page, ".ls-order button")
        page.keyboard.press("ArrowDown")
    else:
        tab_to(page, ".ls-free textarea")
        page.keyboard.type("I do not know")


@pytest.mark.parametrize("name", NAMES[:1])
def test_a_lesson_from_start_to_end_with_the_keyboard_alone(open_page, name):
    found = opened(name)
    page = lesson_page(open_page, name)
    for number, card in enumerate(found.lesson.cards, 1):
        expect(page.locator(".ls-where")).to_have_text(
            f"Card {number} of {len(found.lesson.cards)}"
        )
        told = tree_text(card_after_bet(found, card)["reveal"]).strip()
        body = page.locator(".ls-card")
        expect(body.locator(".ls-title")).to_have_text(card.title)
        assert told not in body.inner_text()
        if card.bet:
            bet_with_keys(page, card.bet.kind)
        tab_to(page, ".ls-go")
        page.keyboard.press("Enter")
        expect(body.locator(".ls-reveal")).to_have_text(told)
        expect(page.locator(".ls-verdict")).to_be_focused()
        key = found.answer_key(card)
        if card.bet and key and card.bet.kind != "text":
            expect(page.locator(".ls-verdict")).to_contain_text(
                ("Right", answer_text(found, card, key))[
                    "wrong" in page.locator(".ls-verdict").get_attribute("class")
                ]
            )
        tab_to(page, ".ls-on")
        page.keyboard.press("Enter")
    marked = sum(card.bet is not None and card.bet.kind != "text" for card in found.lesson.cards)
    expect(page.locator(".ls-score")).to_contain_text(f"of {marked} bets right; 0 left out")
    shot(page, f"lesson_{name}_end")


@pytest.mark.nightly
def test_what_was_bet_is_kept_and_can_be_begun_again(open_page):
    name = NAMES[0]
    page = lesson_page(open_page, name)
    page.locator(".ls-skip-bet").click()
    expect(page.locator(".ls-card")).to_have_class("ls-card revealed")
    page.reload()
    expect(page.locator(".ls-dot").first).to_have_text("1 ·")
    page.locator(".ls-dot").last.click()
    page.locator(".ls-next").click()
    page.get_by_role("button", name="Once more").click()
    expect(page.locator(".ls-dot").first).to_have_text("1")


@pytest.mark.nightly
@pytest.mark.parametrize("name", [LONGEST, *(name for name in NAMES if name != LONGEST)])
def test_every_card_hides_its_answer_and_then_draws(open_page, name):
    found = opened(name)
    page = lesson_page(open_page, name)
    for number, card in enumerate(found.lesson.cards, 1):
        page.locator(".ls-dot").nth(number - 1).click()
        body = page.locator(".ls-card")
        expect(body.locator(".ls-title")).to_have_text(card.title)
        if card.hide == "picture":
            for scene in card_before_bet(found, card)["scenes"]:
                assert scene["text"]
                expect(body.locator(".ls-scenes")).to_contain_text(
                    scene["text"].split("\n")[0].strip()
                )
        if card.hide == "future":
            for scene in card_before_bet(found, card)["scenes"]:
                expect(body.locator(".ls-scenes")).to_contain_text(scene["prompt"].strip()[-20:])
            assert body.locator(".dp-stage").count() == 0
        (body.locator(".ls-skip-bet") if card.bet else body.locator(".ls-go")).click()
        expect(body.locator(".ls-reveal")).to_have_text(
            tree_text(card_after_bet(found, card)["reveal"]).strip()
        )
        for place, scene in enumerate(card.scenes):
            stage = body.locator(".dp-stage").nth(place)
            # The first pass of masked diffusion need not write the word after the prompt.
            text = ".dp-prompt" if "filling" in scene.pictures else ".dp-tok"
            expect(stage.locator(f".dp-v-strip {text}").first).to_be_visible()
            for picture in scene.pictures:
                drawn = stage.locator(f".dp-v-{picture}")
                expect(drawn.locator(":scope > div")).not_to_have_attribute("hidden", "")
                assert drawn.evaluate(
                    "node => node.innerText.trim().length > 0 || !!node.querySelector('svg')"
                )
        assert "[object" not in body.inner_text()
        # What is asked of the server is answered: it takes the run as the lesson has it.
        expect(body.locator(".dp-v-why [aria-busy=true]")).to_have_count(0)
        assert body.locator(".dp-v-why").get_by_text("⚠").count() == 0
    shot(page, f"lesson_{name}")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "width", "height", "language"),
    [
        (LONGEST, *SCREENS[1], "de"),
        *((LONGEST, *size, "en") for size in SCREENS),
        (LONGEST, *SCREENS[0], "de"),
        # Those with the most words, the most of them beneath a picture or a sound.
        *((name, *SCREENS[1], "de") for name in ("distribution", "captions", "transcript")),
    ],
)
def test_a_presented_card_fills_the_screen_and_nothing_scrolls(
    open_page, name, width, height, language
):
    page = open_page(f"/?tab=lessons&lesson={name}&card=1&in={language}")
    page.set_viewport_size({"width": width, "height": height})
    expect(page.locator(".ls-lesson")).to_be_visible()
    page.get_by_role("button", name="Present").click()
    presented = page.locator(".ls-present")
    expect(presented).to_be_visible()
    # Nothing behind the screen is reached until it is left.
    expect(page.locator("[inert] .ls-tools")).to_have_count(1)
    assert presented.evaluate(
        "node => !node.closest('[inert]') && node.contains(document.activeElement)"
    )
    for number in range(1, len(opened(name).lesson.cards) + 1):
        for phase in ("bet", "revealed"):
            expect(presented.locator(".ls-where")).to_contain_text(f"{number} of")
            page.evaluate(_SETTLED)
            assert page.evaluate(_CUT) == [], (number, phase)
            assert page.evaluate(_SMALL) >= 23.99, (number, phase)
            shot(page, f"present_{name}_{language}_{width}_{number}_{phase}")
            page.keyboard.press("PageDown")
    page.keyboard.press("PageUp")
    expect(presented.locator(".ls-where")).to_contain_text("of")
    page.keyboard.press("Escape")
    expect(presented).to_have_count(0)
    expect(page.locator("[inert] .ls-tools")).to_have_count(0)
    expect(page.get_by_role("button", name="Present")).to_be_focused()


@pytest.mark.nightly
def test_a_presented_card_is_scrolled_on_a_phone_and_the_next_begins_at_its_top(open_page):
    page = open_page("/?tab=lessons&lesson=dull&card=4&in=de", width=390, height=844)
    page.get_by_role("button", name="Present", exact=True).click()
    body = page.locator(".ls-present .ls-body")
    expect(page.locator(".ls-present")).to_have_attribute("style", re.compile("font-size"))
    for _ in ("bet", "revealed"):
        page.evaluate(_SETTLED)
        assert body.evaluate("node => node.scrollWidth <= node.clientWidth + 2")
        assert body.evaluate("node => (node.scrollTop = node.scrollHeight, node.scrollTop)") > 0
        last = body.locator(".ls-option, .ls-reveal, .ls-scene").last
        expect(last).to_be_in_viewport()
        page.keyboard.press("PageDown")
    expect(page.locator(".ls-present .ls-where")).to_contain_text("5 of")
    assert body.evaluate("node => node.scrollTop") == 0


@pytest.mark.nightly
def test_the_handout_has_the_questions_and_then_what_is_right(open_page):
    name = NAMES[0]
    found = opened(name)
    page = lesson_page(open_page, name)
    printed = PdfReader(io.BytesIO(page.pdf(format="A4")))
    pages = [" ".join(sheet.extract_text().split()) for sheet in printed.pages]
    key = next(i for i, text in enumerate(pages) if "what is right" in text)
    assert key >= 1
    questions, answers = " ".join(pages[:key]), " ".join(pages[key:])
    for card in found.lesson.cards:
        assert f"{card.number}. {card.title}" in questions
        told = " ".join(tree_text(card_after_bet(found, card)["reveal"]).split())[:30]
        assert told not in questions
        assert told in answers
    assert all(sheet.mediabox.width < sheet.mediabox.height for sheet in printed.pages)
    expect(page.locator(".ls-handout")).to_have_count(0)
    expect(page.locator(".ls-lesson")).to_be_visible()


OWN = """---
title: One of my own
for: me
minutes: 1
runs:
  mine: {strategy: greedy, prompt: "Once upon a time", params: {max_new_tokens: 4}, candidates: 4}
---

# What comes *next*?

```card
step: 2
bet: {kind: token, question: "Which token?", among: 3}
```

So far “{run.prompt}” <b>and</b> [this](javascript:alert(1)).

## Reveal

“{step.token}” with {percent(step.p)}.
"""


def test_a_lesson_of_ones_own_is_opened_from_its_file(open_page, tmp_path):
    page = open_page("/?tab=lessons")
    file = tmp_path / "mine.md"
    file.write_text(OWN, "utf-8")
    page.locator("#lessons-file").set_input_files(file)
    expect(page.locator(".ls-head h2")).to_have_text("One of my own")
    situation = page.locator(".ls-situation")
    expect(situation).to_contain_text("<b>and</b>")
    assert situation.locator("b, a").count() == 0
    page.locator(".ls-option input").first.check()
    page.locator(".ls-go").click()
    expect(page.locator(".ls-reveal")).to_contain_text("%")
    assert "own" not in address(page)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("no lesson at all", "between two lines of ---"),
        (OWN.replace("step: 2", "step: 99"), "step = 99 is not there"),
        (OWN.replace("percent(step.p)", "percent(step.secret)"), "there is no 'secret'"),
        (OWN.replace("max_new_tokens: 4", "max_new_tokens: 100000"), "max_new_tokens"),
        (OWN.replace("strategy: greedy", "strategy: guess"), "strategy"),
    ],
)
def test_a_file_that_is_no_lesson_is_refused_and_the_next_one_opens(
    open_page, tmp_path, text, told
):
    page = open_page("/?tab=lessons")
    expect(page.locator(".ls-lesson")).to_be_visible()
    title = page.locator(".ls-head h2").inner_text()
    for name, content in (("bad.md", text), ("good.md", OWN)):
        (tmp_path / name).write_text(content, "utf-8")
    page.locator("#lessons-file").set_input_files(tmp_path / "bad.md")
    note = page.locator("#page-lessons .dp-status.bad")
    expect(note).to_contain_text(told)
    expect(page.locator(".ls-head h2")).to_have_text(title)
    page.locator("#lessons-file").set_input_files(tmp_path / "good.md")
    expect(page.locator(".ls-head h2")).to_have_text("One of my own")
    expect(note).to_have_count(0)


@pytest.mark.nightly
def test_a_page_in_german_says_so_in_german(open_page):
    page = open_page(f"/?tab=lessons&lesson={NAMES[0]}&lang=de")
    expect(page.locator(".ls-where")).to_contain_text("Karte 1 von")
    expect(page.locator(".ls-lesson")).to_have_attribute("lang", "de")
    german = library.load_lesson(library.find_lesson_file(NAMES[0], "de").path)
    expect(page.locator(".ls-head h2")).to_have_text(german.title)
    expect(page.get_by_role("button", name="Vorführen")).to_be_visible()


@pytest.mark.nightly
def test_settings_of_a_card_are_run_in_their_tab(open_page):
    name, card = next(
        (name, card)
        for name in NAMES
        for card in opened(name).lesson.cards
        if card.opens and card.opens.params
    )
    page = lesson_page(open_page, name, card.number)
    (page.locator(".ls-skip-bet") if card.bet else page.locator(".ls-go")).click()
    page.locator(".ls-open").click()
    strategy = opened(name).traces[card.opens.run].strategy
    expect(page.locator(f"#page-{strategy}")).to_be_visible()
    page.wait_for_function("k => playground.page.shown(k)?.status === 'finished'", arg=strategy)
    config = page.evaluate("k => playground.page.shown(k).config", strategy)
    for setting, value in card.opens.params.items():
        assert config[setting] == value


@pytest.mark.nightly
def test_a_card_fits_a_telephone(open_page):
    page = lesson_page(open_page, LONGEST)
    page.set_viewport_size({"width": 390, "height": 844})
    (
        page.locator(".ls-skip-bet")
        if opened(LONGEST).lesson.cards[0].bet
        else page.locator(".ls-go")
    ).click()
    expect(page.locator(".ls-scene .dp-stage").first).to_be_visible()
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0
    for button in page.locator(".ls-foot > .dp-btn, .ls-option").all():
        if button.is_visible():
            assert button.bounding_box()["height"] >= 43.5
    shot(page, "lesson_390")


@pytest.mark.nightly
@pytest.mark.parametrize(
    "address",
    [
        "lesson=nothing",
        f"lesson={NAMES[0]}&card=99",
        f"lesson={NAMES[0]}&card=x",
        "lesson=../../app",
    ],
)
def test_an_address_of_no_lesson_is_one_sentence(open_page, address):
    page = open_page(f"/?tab=lessons&{address}")
    expect(page.locator("#page-lessons .dp-status.bad")).to_be_visible()


@pytest.mark.nightly
def test_the_text_of_every_lesson_can_be_read_back() -> None:
    """The shelf and the page read the same files."""
    for languages in library.list_lesson_files().values():
        for file in languages.values():
            assert parse_lesson(Path(file.path).read_text("utf-8"), file.name).title
