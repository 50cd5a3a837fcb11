"""A lesson's file: what is read, what is computed from its runs, and one sentence for everything else."""

from __future__ import annotations

import gzip
import math
from pathlib import Path
from typing import Any

import pytest

from engine.analysis import gallery
from engine.inspection.influence import InfluenceQuestion, compute_influence
from engine.lessons import library
from engine.lessons.answer_key import check_answer, crowd_perplexity, is_right
from engine.lessons.expressions import evaluate_expression
from engine.lessons.lesson import LessonError
from engine.lessons.lesson_checks import find_faults
from engine.lessons.plain_text import lesson_to_text
from engine.lessons.run_values import FUNCTIONS, find_temperature, run_record, top_probability_at
from engine.lessons.value_text import LanguageFormat, ValueWriter, insert_placeholders
from tests.helpers.lessons import CARD, HEAD, card, opened


def test_a_token_bet_is_marked_by_the_run() -> None:
    found = opened(HEAD + CARD)
    [one] = found.lesson.cards
    trace = found.traces["story"]
    step = trace.steps[3]
    key = found.answer_key(one)
    assert key is not None
    assert one.bet is not None
    chosen = key.options[key.right[0]]
    assert chosen == trace.pieces[step.emit[-1]]
    assert list(key.options) == sorted(key.options, key=lambda t: (t.strip().casefold(), t))
    by_token = {trace.pieces[c.token_id]: math.exp(c.raw_logprob) for c in step.candidates}
    assert list(key.probabilities) == [by_token[text] for text in key.options]
    assert is_right(one.bet, key, key.right[0]) is True
    assert is_right(one.bet, key, 1 - min(1, key.right[0])) is False
    assert find_faults(found) == []


def test_values_stand_in_the_words() -> None:
    found = opened(HEAD + CARD)
    text = lesson_to_text(found)
    step = found.traces["story"].steps[3]
    piece = found.traces["story"].pieces[step.emit[-1]]
    p = next(math.exp(c.raw_logprob) for c in step.candidates if c.token_id == step.emit[-1])
    assert f"It is “{piece}” with {LanguageFormat('en').percent(p)}." in text
    assert "{" not in text


@pytest.mark.parametrize(
    ("block", "right"),
    [
        ("bet: {kind: truth, question: q, answer: step.rank == 1}", (0,)),
        ("bet: {kind: truth, question: q, answer: step.rank > 1}", (1,)),
        (
            "bet: {kind: choice, question: q, options: [{text: a, if: step.p > 1}, {text: b, if: step.p <= 1}]}",
            (1,),
        ),
        (
            "bet: {kind: order, question: q, options: [{text: a, value: 1}, {text: b, value: 3}, {text: c, value: 2}]}",
            (1, 2, 0),
        ),
        ("bet: {kind: text, question: q}", ()),
    ],
)
def test_each_kind_is_right_where_its_expressions_say(block: str, right: tuple[int, ...]) -> None:
    found = opened(card(block))
    [one] = found.lesson.cards
    key = found.answer_key(one)
    assert key is not None
    assert key.right == right


def test_a_number_is_right_within_its_tolerance() -> None:
    found = opened(
        card("bet: {kind: number, question: q, answer: step.p, unit: percent, tolerance: 5}")
    )
    [one] = found.lesson.cards
    key = found.answer_key(one)
    assert key is not None
    assert key.value is not None
    assert one.bet is not None
    step = found.runs["story"]["steps"][0]
    assert key.value == pytest.approx(100 * step["p"])
    assert is_right(one.bet, key, key.value + 5)
    assert not is_right(one.bet, key, key.value - 5.1)


NOT_BORNE_OUT = {
    "step that is not there": ("step: 999", "", "step = 999"),
    "claim that is wrong": ("holds: ['step.p > 2']", "", "does not hold"),
    "claim that is no claim": ("holds: ['step.p']", "", "neither true nor false"),
    "value that is not there": ("step: 1", "{step.nothing}", "nothing"),
    "value that is a record": ("step: 1", "{step}", "no finite number"),
    "picture of another strategy": ("picture: beam_tree", "", "beam_tree"),
    "until before the step": ("step: 3\nuntil: 2", "", "until"),
    "two right options": (
        "bet: {kind: choice, question: q, options: [{text: a, if: 'step.p < 2'}, {text: b, if: 'step.p < 3'}]}",
        "",
        "2 are",
    ),
    "no right option": (
        "bet: {kind: choice, question: q, options: [{text: a, if: 'step.p > 2'}, {text: b, if: 'step.p > 3'}]}",
        "",
        "0 are",
    ),
    "number off its slider": (
        "bet: {kind: number, question: q, answer: 11, to: 10}",
        "",
        "not between",
    ),
    "equal things to order": (
        "bet: {kind: order, question: q, options: [{text: a, value: 1}, {text: b, value: 1}]}",
        "",
        "equal",
    ),
    "token that is not offered": (
        "bet: {kind: token, question: q, options: [nonsense, other]}",
        "",
        "not",
    ),
    "settings that are not allowed": (
        "open: {run: story, params: {temperature: 9}}",
        "",
        "as it is",
    ),
    "expression of Python": ("holds: ['__import__(1) == 1']", "", "functions are"),
    "attribute of Python": ("holds: ['run.__class__ == 1']", "", "__class__"),
    "endless power": ("holds: ['9**9**9 > 1']", "", "numbers"),
    "text times number": ("holds: ['run.text * 9 == 1']", "", "numbers"),
    "comprehension": ("holds: ['[1 for x in run] == 1']", "", "no meaning"),
    "division by zero": ("holds: ['1 / 0 > 1']", "", "zero"),
    "text with a number": ("holds: ['run.text > 1']", "", "numbers"),
}


@pytest.mark.parametrize(("block", "reveal", "told"), NOT_BORNE_OUT.values(), ids=NOT_BORNE_OUT)
def test_what_the_runs_do_not_bear_out_is_refused(block: str, reveal: str, told: str) -> None:
    found = find_faults(opened(card(block, reveal or "Seen.")))
    assert len(found) == 1
    assert told in found[0]
    assert found[0].startswith("Card 1")
    assert found[0].endswith(".")


@pytest.mark.parametrize(
    ("kind", "answers"),
    [
        (
            "bet: {kind: number, question: q, answer: 1, to: 10}",
            [None, "5", math.nan, 11, -1, True, []],
        ),
        ("bet: {kind: token, question: q, among: 3}", [None, 3, -1, "0", 1.0, True, [0]]),
        ("bet: {kind: truth, question: q, answer: 'step.p < 2'}", [2, "true", True]),
        (
            "bet: {kind: order, question: q, options: [{text: a, value: 1}, {text: b, value: 2}]}",
            [[0], [0, 0], [0, 1, 2], "01", [0, "1"], [True, False], 1],
        ),
        ("bet: {kind: text, question: q}", ["", "x" * 401, 3, None]),
    ],
)
def test_an_answer_that_is_none_is_refused(kind: str, answers: list[Any]) -> None:
    found = opened(card(kind))
    [one] = found.lesson.cards
    key = found.answer_key(one)
    assert key is not None
    assert one.bet is not None
    for answer in answers:
        with pytest.raises(LessonError) as refused:
            check_answer(one.bet, key, answer)
        assert str(refused.value).startswith("answer")


def test_the_perplexity_of_a_crowd_is_that_of_its_bets() -> None:
    found = opened(HEAD + CARD)
    key = found.answer_key(found.lesson.cards[0])
    assert key is not None
    first, second = key.probabilities[:2]
    assert crowd_perplexity(key, [0, 1]) == pytest.approx(1 / math.sqrt(first * second))
    assert crowd_perplexity(key, []) is None


def test_a_temperature_gives_the_share_that_is_asked_for() -> None:
    step = {"n_used": 3, "candidates": [{"used": 0.5}, {"used": 0.3}, {"used": 0.2}]}
    warm = find_temperature(step, 0.7)
    assert top_probability_at(step, warm) == pytest.approx(0.7)
    assert top_probability_at(step, 1.0) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="whole distribution"):
        top_probability_at({**step, "n_used": 4}, 1.0)


def test_every_recorded_run_is_a_record() -> None:
    """Of all strategies: what a lesson may quote is there and finite."""
    for entry in gallery.list_entries():
        trace = gallery.open_entry(entry.file)
        run = run_record(trace)
        assert len(run["steps"]) == len(trace.steps), entry.name
        assert run["text"] == trace.outputs[0].text
        for step in run["steps"]:
            assert all(
                0 <= c["used"] <= 1.000001 and 0 < c["p"] <= 1.000001 for c in step["candidates"]
            )
            assert evaluate_expression("bits(entropy)", step, FUNCTIONS) >= 0


@pytest.mark.parametrize(
    ("value", "english", "german"),
    [
        (4096, "4,096", "4.096"),
        (0.5, "0.5", "0,5"),
        (-1.25, "−1.25", "−1,25"),
        (12345.6, "12,346", "12.346"),
        (True, "yes", "ja"),
        (" eat", " eat", " eat"),
    ],
)
def test_values_are_written_as_a_language_writes_them(
    value: Any, english: str, german: str
) -> None:
    assert LanguageFormat("en").text(value) == english
    assert LanguageFormat("de").text(value) == german


@pytest.mark.parametrize(
    ("share", "told"),
    [
        (0.452, "45"),
        (0.0123, "1.2"),
        (0.0005, "0.05"),
        (0.00000123, "0.0001"),
        (0.99996, "99.996"),
        (0, "0"),
        (1, "100"),
    ],
)
def test_a_share_is_never_rounded_to_nothing_or_to_all(share: float, told: str) -> None:
    assert LanguageFormat("en").percent(share) == f"{told}\u202f%"


def test_braces_quote_values_but_not_in_formulas() -> None:
    text, expressions = insert_placeholders(r"{a} \{b\} $\frac{1}{2} {{c}}$ {d}")
    assert expressions == ["a", "c", "d"]
    assert r"\frac{1}{2}" in text
    assert "{b}" in text
    teller = ValueWriter({"a": "x", "c": 2, "d": "\ue0000\ue001"}, "en")
    assert teller.fill_text("{a}, {d}") == "x, \ue0000\ue001"


def test_a_lesson_of_ones_own_is_recorded_and_checked_against_its_request(tmp_path: Path) -> None:
    path = tmp_path / "mine.md"
    run = (
        "{strategy: greedy, prompt: 'Once upon a time', params: {max_new_tokens: 5}, candidates: 5}"
    )
    path.write_text(HEAD.replace("{recorded: greedy-1}", run) + CARD, "utf-8")
    file = library.LessonFile("mine", "en", path)
    with pytest.raises(LessonError, match="not recorded"):
        library.open_lesson(file)
    told: list[str] = []
    assert list(library.record_lesson_runs(path, told.append)) == ["story"]
    assert library.record_lesson_runs(path, told.append) == {}
    assert find_faults(library.open_lesson(file)) == []
    path.write_text(
        path.read_text("utf-8").replace("max_new_tokens: 5", "max_new_tokens: 4"), "utf-8"
    )
    with pytest.raises(LessonError, match="another max_new_tokens"):
        library.open_lesson(file)


SEES = """---
title: A lesson
for: somebody
minutes: 3
runs:
  scene:
    strategy: greedy
    model: captioner
    image: example:scene-4
    params: {max_new_tokens: 9}
    looks: [{step: 3}, {step: 3, name: first_layer, layer: 1}, {step: 3, method: leave-one-out}]
---

# A card

```card
run: scene
step: 3
picture: looked
holds:
  - step.token == " red"
  - len(step.looked.attention.cross) == 37
  - abs(total(step.looked.attention.cross, "value") - 1) < 0.001
  - abs(total(step.looked.first_layer.cross, "value") - 1) < 0.001
  - most(step.looked.attention.cross, "value").value != most(step.looked.first_layer.cross, "value").value
  - len(between(step.looked.attention.cross, "row", 1, 6)) == 36
  - len(step.looked.leave_one_out.encoder) > 0
```

## Reveal

It looks at row {most(step.looked.attention.cross, "value").row},
column {most(step.looked.attention.cross, "value").column}.
"""


def test_a_run_that_saw_a_picture_is_recorded_with_what_it_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "sees.md"
    path.write_text(SEES, "utf-8")
    file = library.LessonFile("sees", "en", path)
    assert list(library.record_lesson_runs(path, lambda _: None)) == ["scene"]
    assert library.record_lesson_runs(path, lambda _: None) == {}
    found = library.open_lesson(file)
    assert find_faults(found) == []
    trace = found.traces["scene"]
    assert trace.media[0].example == "scene-4"
    # What is kept is what the model is asked for anew.
    answer = compute_influence(trace, InfluenceQuestion(2))
    kept = found.runs["scene"]["steps"][2]["looked"]["attention"]["cross"]
    assert [one["value"] for one in kept] == pytest.approx(answer.parts[0].row(), rel=1e-4)
    # Row by row, behind the place that stands for the whole picture.
    assert "row" not in kept[0]
    assert (kept[1]["row"], kept[1]["column"]) == (1, 1)
    assert (kept[8]["row"], kept[8]["column"]) == (2, 2)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("example:scene-4", "example:scene-5", "another image"),
        ("{step: 3}, ", "{step: 4}, ", "asked of something else"),
        ("layer: 1", "layer: 2", "asked of something else"),
    ],
)
def test_what_was_looked_at_belongs_to_its_lesson(
    tmp_path: Path, old: str, new: str, told: str
) -> None:
    path = tmp_path / "sees.md"
    path.write_text(SEES, "utf-8")
    library.record_lesson_runs(path, lambda _: None)
    path.write_text(SEES.replace(old, new), "utf-8")
    with pytest.raises(LessonError, match=told):
        library.open_lesson(library.LessonFile("sees", "en", path))


@pytest.mark.parametrize(
    "data",
    [b"", b"no gzip", gzip.compress(b"[]"), gzip.compress(b"{}")],
    ids=["empty", "no gzip", "a list", "no looks"],
)
def test_a_file_of_looks_that_is_none_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "sees.md"
    path.write_text(SEES, "utf-8")
    library.record_lesson_runs(path, lambda _: None)
    [kept] = path.parent.glob("runs/*.looked.json.gz")
    kept.write_bytes(data)
    with pytest.raises(LessonError, match="cannot be read"):
        library.open_lesson(library.LessonFile("sees", "en", path))
    # It is made again, and only then a lesson again.
    assert list(library.record_lesson_runs(path, lambda _: None)) == ["scene"]
    assert find_faults(library.open_lesson(library.LessonFile("sees", "en", path))) == []


def test_a_step_that_is_not_there_is_not_looked_into(tmp_path: Path) -> None:
    path = tmp_path / "sees.md"
    path.write_text(SEES.replace("[{step: 3}", "[{step: 30}"), "utf-8")
    with pytest.raises(LessonError, match="step 30 is looked into, and it has 9"):
        library.record_lesson_runs(path, lambda _: None)


def test_a_step_that_was_not_looked_into_has_no_such_picture(tmp_path: Path) -> None:
    path = tmp_path / "sees.md"
    path.write_text(SEES, "utf-8")
    library.record_lesson_runs(path, lambda _: None)
    holds = SEES[SEES.index("holds:") : SEES.index("```\n\n## Reveal")]
    other = SEES.replace(holds, "").replace("step: 3\npicture", "step: 4\npicture")
    path.write_text(other.split("It looks")[0] + "Seen.", "utf-8")
    [fault] = find_faults(library.open_lesson(library.LessonFile("sees", "en", path)))
    assert "has no picture 'looked'" in fault
