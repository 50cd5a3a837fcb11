"""What a page fetches of lessons, and a lesson that somebody opens from a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from engine.lessons import library
from playground.forms.lesson_data import card_after_bet, card_before_bet
from playground.tabs import lessons
from tests.helpers.jobs import read
from tests.helpers.lessons import CARD, HEAD

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def client():
    with TestClient(Starlette(routes=lessons.routes())) as client:
        yield client


def test_the_list_names_every_lesson_in_every_language_and_a_path_through_them(client):
    index = client.get("/lessons/index.json").json()
    named = {(one["name"], one["language"]) for one in index["lessons"]}
    assert named == {
        (n, language) for n, told in library.list_lesson_files().items() for language in told
    }
    assert {name for name, _ in named} == set(library.list_lesson_files())
    assert not [one for one in index["lessons"] if "error" in one]
    for language in ("en", "de"):
        path = index["paths"][language]
        assert sum(stop["minutes"] for stop in path["stops"]) == path["minutes"] == 90
        assert len(path["stops"]) == 12
        assert {stop["lesson"] for stop in path["stops"]} <= {*library.list_lesson_files()}


def test_a_lesson_is_fetched_whole_and_kept_by_the_browser(client):
    version = client.get("/lessons/index.json").json()["version"]
    answer = client.get(f"/lessons/{version}/temperature.de.json")
    assert "immutable" in answer.headers["cache-control"]
    lesson = answer.json()
    assert lesson["about"]["language"] == "de"
    assert set(lesson["runs"]) >= {s["run"] for c in lesson["cards"] for s in c["before"]["scenes"]}
    plain = client.get(
        f"/lessons/{version}/temperature.de.json", headers={"accept-encoding": "identity"}
    )
    assert "content-encoding" not in plain.headers
    assert plain.json() == lesson


@pytest.mark.parametrize(
    "name",
    ["temperature.xx", "nothing.en", "temperature.enenenen", "..%2F..%2Fapp.en", "temperature.%00"],
)
def test_what_is_not_there_is_not_found_and_not_kept(client, name):
    version = client.get("/lessons/index.json").json()["version"]
    kept = lessons._pack_file.cache_info().currsize
    assert client.get(f"/lessons/{version}/{name}.json").status_code == 404
    assert client.get(f"/lessons/0123456789abcdef/{name}.json").status_code == 404
    assert lessons._pack_file.cache_info().currsize == kept


def test_what_is_seen_before_a_bet_has_no_part_of_the_answer():
    """Of all cards: neither the key nor what is told after it."""
    for name in library.list_lesson_files():
        found = library.open_lesson(library.find_lesson_file(name))
        for card in found.lesson.cards:
            seen, told = card_before_bet(found, card), card_after_bet(found, card)
            assert not {"key", "reveal", "why", "turn", "myth"} & set(seen)
            assert not {"right", "value", "probabilities", "answer"} & set(seen["bet"] or {})
            assert told["reveal"]


@pytest.mark.nightly
def test_the_right_answer_is_shown_in_the_words_that_were_offered():
    texts = json.loads((ROOT / "assets" / "text" / "de" / "page.json").read_text("utf-8"))
    offered = {"en": ("True", "False"), "de": (texts["True"], texts["False"])}
    told = [
        (language, card_after_bet(found, card)["key"]["told"])
        for name in library.list_lesson_files()
        for language in offered
        for found in [library.open_lesson(library.find_lesson_file(name, language))]
        for card in found.lesson.cards
        if card.bet and card.bet.kind == "truth"
    ]
    assert len(told) > 4
    assert all(words in offered[language] for language, words in told)


def messages(asked):
    return list(read(lessons.LESSONS, asked))


@pytest.mark.parametrize("asked", [{}, {"text": 3}, {"text": ""}, {"text": "x" * 200_000}])
def test_what_is_no_lesson_is_one_sentence(asked):
    [said] = messages(asked)
    assert said["kind"] == "failed"
    assert said["error"].endswith(".")
    assert "reference" not in said["error"]


def test_a_lesson_may_not_ask_for_more_runs_than_a_visitor_gets():
    runs = "".join(f"  r{i}: {{strategy: greedy, prompt: a}}\n" for i in range(7))
    text = HEAD.split("runs:")[0] + "runs:\n" + runs + "---\n" + CARD.replace("story", "r0")
    [said] = messages({"text": text})
    assert "6 runs at most, this one 7" in said["error"]


def test_recorded_runs_are_not_made_again():
    *said, last = messages({"text": HEAD + CARD})
    assert [one["kind"] for one in said] == ["progress", "progress"]
    assert last["kind"] == "lesson"
    assert set(last["lesson"]["runs"]) == {"story", "drawn"}


def test_a_lesson_fetches_no_code_that_nobody_has_looked_at():
    run = "{strategy: custom, prompt: a, params: {method: somebody/method}}"
    said = messages({"text": HEAD.replace("{recorded: greedy-1}", run) + CARD})[-1]
    assert said["kind"] == "failed"
    assert "somebody/method" in said["error"]
    assert "is not on this machine yet" in said["error"]
