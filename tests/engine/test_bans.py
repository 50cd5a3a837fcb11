"""A banned text is banned however a tokenizer can write it, and the run says which ids that are."""

from __future__ import annotations

import pytest

from engine import DecodeRequest, load
from engine.export.plan import plan_export
from engine.export.script import script_text
from engine.export.verify import verify_export
from engine.models.spellings import MAX_SPELLINGS, find_spellings, word_forms
from engine.models.text import Pieces
from engine.trace.json_io import dumps, loads
from tests.helpers.models import golden_model
from tests.helpers.runs import failed, finished
from tests.helpers.tokenizers import KINDS, tokenizer_of

NAMED = "Once upon a time, there was a little girl named"


def run(prompt=NAMED, seed=0, strategy="sampling", **params):
    drawn = {"temperature": 0.7} if strategy == "sampling" else {}
    params = {"max_new_tokens": 40, **drawn, **params}
    return finished(DecodeRequest(strategy, load("storyteller"), prompt, params=params, seed=seed))


def cut_by_hand(text, by_text):
    """Return every way to cut a text into pieces, by trying every first piece."""
    if not text:
        return [()]
    return [
        (token_id, *rest)
        for end in range(1, len(text) + 1)
        for token_id in by_text.get(text[:end], ())
        for rest in cut_by_hand(text[end:], by_text)
    ]


@pytest.mark.parametrize("text", ["bear", " red", "ran"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_way_to_write_a_word_is_found(kind, text):
    tokenizer = tokenizer_of(kind)
    pieces = Pieces(tokenizer)
    word = text.strip()
    by_hand = {*cut_by_hand(word, pieces.by_text), *cut_by_hand(" " + word, pieces.by_text)}
    ways = find_spellings(text, tokenizer, pieces)
    assert set(ways) == by_hand
    assert len(ways) == len(by_hand) > 2
    assert {"".join(pieces[i] for i in ids) for ids in ways} == {word, " " + word}


def test_the_shortest_ways_to_write_a_long_text_come_first():
    loaded = load("storyteller")
    ways = find_spellings("Once upon a time there was a dragon", loaded.tokenizer, loaded.pieces)
    assert MAX_SPELLINGS < len(ways) <= 2 * (MAX_SPELLINGS + 1)
    own = loaded.tokenizer("Once upon a time there was a dragon")["input_ids"]
    assert tuple(own) in ways


def test_case_is_asked_for():
    assert word_forms("Lily") == word_forms(" Lily") == [" Lily", "Lily"]
    assert word_forms("(?i)Lily rose") == [
        *(" Lily rose", "Lily rose", " lily rose", "lily rose"),
        *(" LILY ROSE", "LILY ROSE", " Lily Rose", "Lily Rose"),
    ]
    assert word_forms(" ") == [" "]
    assert word_forms("(?i)") == [" (?i)", "(?i)"]


@pytest.mark.nightly
@pytest.mark.parametrize("banned", ["Lily", " Lily", "(?i)LILY"])
def test_a_banned_name_is_not_written(banned):
    assert " Lily" in run().outputs[0].text
    for seed in range(4):
        assert "Lily" not in run(seed=seed, bad_words_ids=[banned]).outputs[0].text
    for strategy in ("greedy", "beam_search", "contrastive_search", "prompt_lookup"):
        text = run(strategy=strategy, bad_words_ids=[banned]).outputs[0].text
        assert "Lily" not in text


@pytest.mark.nightly
def test_the_run_and_its_code_say_which_ids_are_banned():
    trace = run(bad_words_ids=[" Lily", [5, 6]], max_new_tokens=8)
    ids = trace.config["bad_words_ids"]
    tokenizer = load("storyteller").tokenizer
    assert tokenizer(" Lily")["input_ids"] in ids
    assert tokenizer("Lily")["input_ids"] in ids
    assert ids[-1] == [5, 6]
    [note] = [note for note in trace.notes if note.startswith("bad_words_ids: ' Lily' is banned")]
    assert f"in {len(ids) - 1} spellings" in note
    assert loads(dumps(trace)) == trace
    code = script_text(plan_export(trace))
    assert f"bad_words_ids={ids!r}" in code
    assert "# bad_words_ids: ' Lily' is banned" in code
    assert verify_export(trace).equal


def test_ids_are_banned_as_they_are():
    trace = run(bad_words_ids=[[485]], max_new_tokens=4)
    assert trace.config["bad_words_ids"] == [[485]]
    assert not trace.notes


def test_what_cannot_be_banned_is_said():
    params = {"bad_words_ids": ["Lily"]}
    error = failed(DecodeRequest("greedy", golden_model("llama"), input_ids=[5], params=params))
    assert "no tokenizer" in str(error)
    words = [f"the little bear number {n}" for n in range(60)]
    error = failed(DecodeRequest("greedy", None, "Once", params={"bad_words_ids": words}))
    assert "at most 2048 can be banned" in str(error)
