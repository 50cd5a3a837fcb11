"""Every lesson that comes along is borne out by its runs, is short, and is the same in every language."""

from __future__ import annotations

import re
from functools import cache

import pytest

from engine.lessons import shelf
from engine.lessons.checking import differences, faults, words_of
from engine.lessons.looks import looked_file
from engine.lessons.told import quotes
from playground import markdown

FILES = [
    file
    for languages in shelf.shelved().values()
    for file in languages.values()
    if file.path.parent == shelf.FOLDER
]
ENGLISH = [file for file in FILES if file.language == shelf.ENGLISH]
LONGEST = {"situation": 280, "reveal": 320, "why": 500}
"""Characters that a card's parts have at most, with letters of 24 px on one screen."""
LONGEST_QUESTION = 140
LARGEST_RUN, LARGEST_LESSON = 25_000, 80_000
"""Bytes of a recorded run, and of all of a lesson."""


def name_of(file):
    return f"{file.name}.{file.language}"


@cache
def opened_of(file):
    return shelf.opened(file)


@pytest.fixture(params=FILES, ids=name_of)
def opened(request):
    return opened_of(request.param)


def test_every_lesson_is_there_in_english_and_german():
    assert ENGLISH
    assert {f.name: set(shelf.shelved()[f.name]) for f in ENGLISH} == {
        f.name: {"en", "de"} for f in ENGLISH
    }


def test_its_runs_bear_it_out(opened):
    assert faults(opened) == []


def test_it_has_few_cards_several_kinds_of_bets_and_a_wrong_idea_that_is_disproved(opened):
    cards = opened.lesson.cards
    assert 4 <= len(cards) <= 8
    assert len({card.bet.kind for card in cards if card.bet}) >= 2
    assert any(card.myth and card.holds for card in cards)
    assert all(card.holds for card in cards if card.myth)
    assert any(card.turn and card.opens for card in cards)


def test_a_card_fits_on_one_screen(opened):
    for card in opened.lesson.cards:
        teller = opened.teller(card)
        for part, longest in LONGEST.items():
            text = teller.filled(getattr(card, part))
            assert len(text) <= longest, (card.number, part, len(text))
        if card.bet:
            assert len(teller.filled(card.bet.question)) <= LONGEST_QUESTION, card.number


def test_every_value_of_a_card_is_in_its_text(opened):
    for card in opened.lesson.cards:
        teller = opened.teller(card)
        for text in words_of(card):
            filled = teller.filled(text)
            assert all(teller.text(expression) in filled for expression in quotes(text))
            assert "{{" not in filled


def test_every_formula_is_one_that_can_be_drawn(opened):
    for card in opened.lesson.cards:
        teller = opened.teller(card)
        for part in (card.situation, card.reveal, card.why, card.turn):
            # A command that is not known is left as it was written.
            assert "\\" not in markdown.words(markdown.tree(part, teller)), card.number


def test_every_bet_has_a_key_that_is_one_of_several(opened):
    for card in opened.lesson.cards:
        key = opened.key(card)
        assert (key is None) == (card.bet is None)
        if key is None or card.bet.kind == "text":
            continue
        if card.bet.kind == "number":
            assert card.bet.low <= key.value <= card.bet.high
        else:
            assert key.right
            assert set(key.right) <= set(range(max(2, len(key.options))))


def test_nothing_that_is_read_before_the_bet_holds_the_token_that_is_bet_on(opened):
    for card in opened.lesson.cards:
        if card.bet and card.bet.kind == "token":
            key, teller = opened.key(card), opened.teller(card)
            right = key.options[key.right[0]]
            said = f"{card.title} {teller.filled(card.bet.question)}"
            assert right.strip() not in re.findall(r"\w+", said)


@pytest.mark.parametrize("file", [f for f in FILES if f not in ENGLISH], ids=name_of)
def test_a_translation_is_the_same_lesson(file):
    original = shelf.lesson_of(shelf.find(file.name).path)
    translated = shelf.lesson_of(file.path)
    assert translated.language == file.language
    assert differences(translated, original) == []


@pytest.mark.parametrize("file", ENGLISH, ids=name_of)
def test_what_was_recorded_is_what_it_asks_for_and_small(file):
    lesson = shelf.lesson_of(file.path)
    opened = opened_of(file)
    sizes = []
    for run in lesson.runs.values():
        if run.recorded:
            continue
        assert shelf.differing(run, opened.traces[run.name]) == ""
        sizes.append(shelf.trace_file(file.path, lesson.name, run.name).stat().st_size)
    assert max(sizes, default=0) < LARGEST_RUN
    assert sum(sizes) < LARGEST_LESSON


def test_no_recorded_run_is_left_over():
    runs = [
        (file, run)
        for file in ENGLISH
        for run in shelf.lesson_of(file.path).runs.values()
        if not run.recorded
    ]
    kept = [(shelf.trace_file(file.path, file.name, run.name), run) for file, run in runs]
    wanted = {path for path, _ in kept} | {looked_file(path) for path, run in kept if run.looks}
    assert set((shelf.FOLDER / shelf.RUNS).iterdir()) == wanted
