"""Every lesson that comes along is borne out by its runs, is short, and is the same in every language."""

from __future__ import annotations

import re
from functools import cache

import pytest

from engine.lessons import library
from engine.lessons.influence_records import influence_file
from engine.lessons.lesson_checks import card_texts, find_faults
from engine.lessons.value_text import quoted_expressions
from playground.forms import markdown

FILES = [
    file
    for languages in library.list_lesson_files().values()
    for file in languages.values()
    if file.path.parent == library.FOLDER
]
ENGLISH = [file for file in FILES if file.language == library.ENGLISH]
LONGEST = {"situation": 280, "reveal": 320, "why": 500}
"""Characters that a card's parts have at most, with letters of 24 px on one screen."""
LONGEST_QUESTION = 140
LARGEST_RUN, LARGEST_LESSON = 25_000, 80_000
"""Bytes of a recorded run, and of all of a lesson."""


def name_of(file):
    return f"{file.name}.{file.language}"


@cache
def opened_of(file):
    return library.open_lesson(file)


def all_of(rule, files=FILES):
    """Return ``lesson: what`` for everything that a rule finds in some lessons."""
    assert files
    return [f"{name_of(file)}: {what}" for file in files for what in rule(file)]


@pytest.mark.nightly
def test_every_lesson_is_there_in_english_and_german():
    assert ENGLISH
    assert [f.name for f in ENGLISH if "de" not in library.list_lesson_files()[f.name]] == []
    assert {file.name for file in FILES} == {file.name for file in ENGLISH}


@pytest.mark.nightly
def test_its_runs_bear_it_out():
    assert all_of(lambda file: find_faults(opened_of(file))) == []


def poor_choice(file):
    """Yield what a lesson lacks: cards, kinds of bets, a wrong idea, or settings to turn."""
    cards = opened_of(file).lesson.cards
    if not 4 <= len(cards) <= 8:
        yield f"has {len(cards)} cards"
    if len({card.bet.kind for card in cards if card.bet}) < 2:
        yield "has one kind of bets"
    if not any(card.myth and card.holds for card in cards):
        yield "disproves no wrong idea"
    if not any(card.turn and card.opens for card in cards):
        yield "has no settings to turn"
    yield from (
        f"card {card.number}: claims nothing" for card in cards if card.myth and not card.holds
    )


@pytest.mark.nightly
def test_it_has_few_cards_several_kinds_of_bets_and_a_wrong_idea_that_is_disproved():
    assert all_of(poor_choice) == []


def long_texts(file):
    opened = opened_of(file)
    for card in opened.lesson.cards:
        teller = opened.value_writer(card)
        texts = {part: (getattr(card, part), longest) for part, longest in LONGEST.items()}
        if card.bet:
            texts["question"] = (card.bet.question, LONGEST_QUESTION)
        for part, (text, longest) in texts.items():
            length = len(teller.fill_text(text))
            if length > longest:
                yield f"card {card.number}: {part} has {length} characters"


def test_a_card_fits_on_one_screen():
    assert all_of(long_texts) == []


def lost_values(file):
    opened = opened_of(file)
    for card in opened.lesson.cards:
        teller = opened.value_writer(card)
        for text in card_texts(card):
            filled = teller.fill_text(text)
            for expression in quoted_expressions(text):
                if teller.text(expression) not in filled:
                    yield f"card {card.number}: lacks the value of {expression}"
            if "{{" in filled:
                yield f"card {card.number}: keeps braces in {filled}"


def test_every_value_of_a_card_is_in_its_text():
    assert all_of(lost_values) == []


def raw_formulas(file):
    opened = opened_of(file)
    for card in opened.lesson.cards:
        teller = opened.value_writer(card)
        for part in (card.situation, card.reveal, card.why, card.turn):
            # A command that is not known is left as it was written.
            words = markdown.tree_text(markdown.parse_markdown(part, teller))
            if "\\" in words:
                yield f"card {card.number}: {words}"


def test_every_formula_is_one_that_can_be_drawn():
    assert all_of(raw_formulas) == []


def odd_keys(file):
    opened = opened_of(file)
    for card in opened.lesson.cards:
        key = opened.answer_key(card)
        if (key is None) != (card.bet is None):
            yield f"card {card.number}: key and bet do not go together"
        elif key is None or card.bet.kind == "text":
            continue
        elif card.bet.kind == "number":
            if not card.bet.low <= key.value <= card.bet.high:
                yield f"card {card.number}: {key.value} is off the slider"
        elif not key.right or not set(key.right) <= set(range(max(2, len(key.options)))):
            yield f"card {card.number}: {key.right} is no option"


def test_every_bet_has_a_key_that_is_one_of_several():
    assert all_of(odd_keys) == []


def betrayed_tokens(file):
    opened = opened_of(file)
    for card in opened.lesson.cards:
        if card.bet and card.bet.kind == "token":
            key, teller = opened.answer_key(card), opened.value_writer(card)
            right = key.options[key.right[0]].strip()
            if right in re.findall(r"\w+", f"{card.title} {teller.fill_text(card.bet.question)}"):
                yield f"card {card.number}: says {right}"


def test_nothing_that_is_read_before_the_bet_holds_the_token_that_is_bet_on():
    assert all_of(betrayed_tokens) == []


def differences(lesson, original):
    found = []
    if lesson.runs != original.runs:
        found.append("Its runs are others.")
    if len(lesson.cards) != len(original.cards):
        return [*found, f"It has {len(lesson.cards)} cards, the original {len(original.cards)}."]
    for one, other in zip(lesson.cards, original.cards, strict=True):
        own, theirs = facts_of(one), facts_of(other)
        name = next((name for name in theirs if own.get(name) != theirs[name]), None)
        if name:
            found.append(f"Card {one.number}: its {name} is another.")
    return found


def facts_of(card):
    """Return name -> value of everything in a card that must be equal in all languages."""
    facts = {n: getattr(card, n) for n in ("scenes", "hide", "holds", "opens")}
    facts |= {name: bool(getattr(card, name)) for name in ("myth", "why", "turn")}
    facts["bet"] = card.bet and card.bet.kind
    if card.bet:
        for name in ("answer", "among", "low", "high", "by", "tolerance", "unit"):
            facts[f"bet's {name}"] = getattr(card.bet, name)
        tokens = card.bet.kind == "token"
        facts["bet's options"] = [o.text if tokens else o.when for o in card.bet.options]
    for name, text in zip(("situation", "reveal", "why", "turn"), card_texts(card), strict=False):
        facts[f"{name}'s values"] = sorted(quoted_expressions(text))
    return facts


def changed_by_translation(file):
    translated = library.load_lesson(file.path)
    if translated.language != file.language:
        yield f"is in {translated.language}"
    yield from differences(
        translated, library.load_lesson(library.find_lesson_file(file.name).path)
    )


def test_a_translation_is_the_same_lesson():
    assert all_of(changed_by_translation, [f for f in FILES if f not in ENGLISH]) == []


def odd_recordings(file):
    lesson, opened, sizes = library.load_lesson(file.path), opened_of(file), [0]
    for run in lesson.runs.values():
        if not run.recorded:
            other = library.find_changed_field(run, opened.traces[run.name])
            if other:
                yield f"{run.name} has another {other}"
            sizes.append(library.trace_file(file.path, lesson.name, run.name).stat().st_size)
    if max(sizes) >= LARGEST_RUN:
        yield f"has a run of {max(sizes)} bytes"
    if sum(sizes) >= LARGEST_LESSON:
        yield f"has runs of {sum(sizes)} bytes"


def test_what_was_recorded_is_what_it_asks_for_and_small():
    assert all_of(odd_recordings, ENGLISH) == []


def test_a_fault_of_a_lesson_is_named(monkeypatch):
    monkeypatch.setitem(LONGEST, "situation", 0)
    monkeypatch.setattr(library, "find_changed_field", lambda run, trace: "seed")
    assert f"{name_of(FILES[0])}: card 1: situation has " in "\n".join(all_of(long_texts))
    recorded = [
        run.name for run in library.load_lesson(ENGLISH[0].path).runs.values() if not run.recorded
    ]
    wanted = [f"{name_of(ENGLISH[0])}: {name} has another seed" for name in recorded]
    assert recorded
    assert all_of(odd_recordings, ENGLISH[:1]) == wanted


def test_no_recorded_run_is_left_over():
    runs = [
        (file, run)
        for file in ENGLISH
        for run in library.load_lesson(file.path).runs.values()
        if not run.recorded
    ]
    kept = [(library.trace_file(file.path, file.name, run.name), run) for file, run in runs]
    wanted = {path for path, _ in kept} | {influence_file(path) for path, run in kept if run.looks}
    assert set((library.FOLDER / library.RUNS_FOLDER).iterdir()) == wanted
