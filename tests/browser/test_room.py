"""A class in a room: a teacher's page, participants with browsers and many without, all on one server."""

from __future__ import annotations

import dataclasses

import pytest
from playwright.sync_api import expect

from engine.lessons import library
from engine.models.loading import load
from engine.settings import SETTINGS
from tests.helpers.axe import grave
from tests.helpers.crowd import Person
from tests.helpers.gates import gate
from tests.helpers.pages import fits, shot
from tests.helpers.patience import comes_true
from tests.helpers.rooms import KINDS, write_lesson
from tests.helpers.served import SERVED_HERE

pytestmark = SERVED_HERE
CROWD = 30
# How long a sound is, once it has come; no number where it does not.
HEARD = """node => new Promise((done) => {
  node.onloadedmetadata = node.onerror = () => done(node.duration); node.load(); })"""
IN_THE_ROOM = ".rm-lesson:not(:empty), .rm-ended:not(:empty)"


@pytest.fixture(autouse=True)
def kinds(tmp_path, monkeypatch):
    """Put the lesson of all kinds on the server's shelf."""
    write_lesson(tmp_path)
    monkeypatch.setattr(library, "SETTINGS", dataclasses.replace(SETTINGS, lessons=str(tmp_path)))


@pytest.fixture
def no_run():
    """Fail where anything is decoded."""
    with gate(load("storyteller").model, free=0) as gated:
        yield
        assert gated.passes == 0


def teaching(visit, beside=None, lesson="kinds"):
    """Return a page that shows the lesson, and its panel where a room was opened before."""
    page = visit(f"/?tab=lessons&lesson={lesson}&__theme=light", beside=beside)
    expect(page.locator(".ls-title")).to_be_visible()
    return page


def panel(teacher):
    return teacher.locator(".rm-panel")


def press(teacher, name):
    panel(teacher).get_by_role("button", name=name, exact=True).click()


def opened(visit, lesson="kinds"):
    """Return the teacher's page and the code of a room."""
    page = teaching(visit, lesson=lesson)
    page.get_by_role("button", name="Let a class bet").click()
    press(page, "Open a room")
    code = page.locator(".rm-code")
    expect(code).to_be_visible()
    return page, code.inner_text()


def enter(visit, code, beside=None, width=390, height=844):
    page = visit(f"/room/{code}", width=width, height=height, beside=beside, ready=None)
    expect(page.locator(IN_THE_ROOM).first).to_be_visible()
    return page


def counts(teacher, text):
    expect(panel(teacher).locator(".rm-counts")).to_contain_text(text)


def bet(page, place):
    page.get_by_role("radio").nth(place).check()
    page.get_by_role("button", name="Bet", exact=True).click()
    expect(page.get_by_role("button", name="✓ Your bet is in")).to_be_visible()


def table(page):
    """Return how often each answer was given, as a histogram says."""
    cells = page.locator(".rm-table tbody td:nth-of-type(1) .rm-number").all_inner_texts()
    return [int(text.split(" ")[0]) for text in cells]


def closed(teacher):
    press(teacher, "Close the room")
    press(teacher, "Close it for everybody")


@pytest.mark.nightly
def test_a_class_of_many_bets_and_gets_the_answer(visit, here, no_run):
    teacher, code = opened(visit)
    expect(teacher.locator(".rm-picture .rm-qr")).to_be_visible()
    crowd = [Person(here, code) for _ in range(CROWD)]
    pages = [enter(visit, code) for _ in range(3)]
    counts(teacher, f"{CROWD + 3} here")
    for number, person in enumerate(crowd):
        assert person.vote(1, number % 3).status_code == 200
    for page, place in zip(pages, (3, 3, 0), strict=True):
        bet(page, place)
    counts(teacher, f"{CROWD + 3} have bet")
    panel(teacher).get_by_text("What they bet, and what is right").click()
    assert table(panel(teacher)) == [11, 10, 10, 2]

    late = enter(visit, code)
    counts(teacher, f"{CROWD + 4} here")
    expect(late.get_by_role("radio")).to_have_count(4)
    assert not late.get_by_role("radio", checked=True).count()
    shot(late.locator("body"), "room-participant")
    pages[0].reload()
    expect(pages[0].get_by_role("radio").nth(3)).to_be_checked()
    expect(pages[0].get_by_role("button", name="✓ Your bet is in")).to_be_disabled()
    shot(teacher.locator("body"), "room-teacher")

    again = teaching(visit, beside=teacher)
    teacher.close()
    expect(again.locator(".rm-code")).to_have_text(code)
    counts(again, f"{CROWD + 3} have bet")
    looked_at_by_all(again)
    press(again, "Reveal")
    for page in (*pages, late):
        expect(page.locator(".rm-table")).to_be_visible()
        assert table(page) == [11, 10, 10, 2]
        expect(page.locator(".ls-reveal")).to_contain_text("the-reveal")
    expect(late.locator(".ls-verdict")).to_contain_text("Answer:")
    comes_true(lambda: all(person.heard[-1][1].get("revealed") for person in crowd))
    assert crowd[0].vote(1, 2).status_code == 409
    assert grave(again) == grave(pages[0]) == []
    answered_for_all(again, code)
    shot(again.locator("body"), "room-teacher-revealed")
    shot(pages[0].locator("body"), "room-participant-revealed")

    press(again, "Next →")
    for page in (*pages, late):
        expect(page.locator(".ls-title")).to_have_text("A card about number")
    closed(again)
    expect(panel(again).get_by_role("button", name="Open a room")).to_be_visible()
    for page in (*pages, late):
        expect(page.locator(".rm-ended")).to_have_text("This room has ended.")
    for person in crowd:
        person.gone()
        assert person.heard[-1][0] == "ended"
    assert again.evaluate("localStorage.getItem('decoding-playground.room.kinds')") is None


@pytest.mark.nightly
@pytest.mark.parametrize(("lesson", "given"), [("transcript", "audio"), ("captions", "img")])
def test_a_participant_hears_and_sees_what_a_card_is_about(visit, lesson, given, no_run):
    teacher, code = opened(visit, lesson)
    there = enter(visit, code).locator(f".ls-card {given}")
    expect(there).to_have_count(1)
    if given == "audio":
        assert there.evaluate(HEARD) > 0.5
    else:
        assert there.evaluate("async (node) => (await node.decode(), node.naturalWidth)") > 0
    closed(teacher)


def looked_at_by_all(teacher):
    """Show on the whole screen what was bet: before the reveal it does not say what is right."""
    teacher.get_by_role("button", name="Present", exact=True).click()
    teacher.get_by_role("button", name="What they bet", exact=True).click()
    screen = teacher.locator(".rm-on-screen")
    expect(screen.locator(".rm-table")).to_be_visible()
    assert "right" not in screen.inner_text()
    assert "model" not in screen.inner_text()
    shot(teacher.locator("body"), "room-presented")
    teacher.keyboard.press("Escape")
    expect(screen).to_be_hidden()


def answered_for_all(teacher, code):
    """Show the revealed card on the whole screen: one table has the bets and the model's answer."""
    teacher.get_by_role("button", name="Present", exact=True).click()
    screen = teacher.locator(".ls-present")
    expect(screen.locator(".ls-bar")).to_contain_text(f"{CROWD + 3} have bet")
    card = screen.locator(".ls-card.revealed")
    expect(card.get_by_role("columnheader")).to_have_text(["Answer", "The class", "The model"])
    expect(card.locator(".rm-table")).to_contain_text("✓ right")
    expect(card.locator(".ls-option:visible")).to_have_count(0)
    # Latecomers can still join.
    expect(screen.locator(".rm-strip")).to_contain_text(code)
    expect(screen.locator(".rm-strip .rm-qr")).to_be_in_viewport()
    shot(teacher.locator("body"), "room-presented-revealed")
    teacher.keyboard.press("Escape")
    expect(screen).to_have_count(0)


@pytest.mark.nightly
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_kind_of_card_on_a_phone_with_the_keyboard(visit, scheme, no_run):
    teacher, code = opened(visit)
    page = enter(visit, code)
    page.emulate_media(color_scheme=scheme)
    page.reload()
    for number, kind in enumerate(KINDS, 1):
        expect(page.locator(".ls-title")).to_have_text(f"A card about {kind or 'nothing'}")
        if kind:
            answered(page, kind)
            counts(teacher, "1 have bet")
            assert fits(page)
            assert grave(page) == [], kind
        press(teacher, "Reveal")
        expect(page.locator(".ls-reveal")).to_contain_text("the-reveal")
        assert fits(page)
        assert grave(page) == [], kind
        shot(page.locator("body"), f"room-{kind or 'nothing'}-{scheme}")
        if number < len(KINDS):
            press(teacher, "Next →")
    closed(teacher)
    expect(page.locator(".rm-ended")).to_be_visible()


def answered(page, kind):
    """Answer a card by keys alone."""
    if kind == "text":
        page.get_by_role("textbox").focus()
        page.keyboard.type("because")
    elif kind == "number":
        page.get_by_role("slider").focus()
        page.keyboard.press("ArrowRight")
    elif kind == "order":
        page.get_by_role("button", name="Move up: C").focus()
        page.keyboard.press("Enter")
    else:
        page.get_by_role("radio").first.focus()
        page.keyboard.press("Space")
    page.get_by_role("button", name="Bet", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="✓ Your bet is in")).to_be_visible()


def test_a_wrong_code_leads_to_a_field_for_another(visit, browser, here):
    teacher, code = opened(visit)
    page = browser.new_context(viewport={"width": 390, "height": 844}).new_page()
    page.goto(f"{here}/room/NNNNNN")
    expect(page.get_by_role("alert")).to_contain_text("There is no such room")
    assert grave(page) == []
    shot(page.locator("body"), "room-wrong-code")
    page.get_by_label("Code of the room").fill(code.lower())
    page.get_by_role("button", name="Enter").click()
    expect(page.locator(".ls-title")).to_have_text("A card about token")
    counts(teacher, "1 here")
    press(teacher, "Lock")
    expect(panel(teacher).get_by_role("button", name="Unlock")).to_be_visible()
    page.context.clear_cookies()
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("locked")
    page.context.close()
    closed(teacher)
