"""Pieces and running text: split UTF-8, special tokens, revisions."""

from __future__ import annotations

from copy import deepcopy

import pytest
from tokenizers import AddedToken

from engine import DecodeRequest, load
from engine.models.text import Detokenizer, OutputDecoder, Pieces, decode_ids, special_ids
from tests.helpers.runs import reread
from tests.helpers.talker import FAMILIES, said, talker


@pytest.fixture(scope="module")
def tokenizer():
    return load("storyteller").tokenizer


@pytest.mark.parametrize("text", ["a 👩‍👩‍👧 b", "naïve café", "日本語", "x\n\ty", " two  spaces"])
def test_running_text_never_shows_half_a_character_and_ends_right(tokenizer, text):
    ids = tokenizer(text)["input_ids"]
    running, shown = Detokenizer(OutputDecoder(tokenizer)), ""
    for n in range(1, len(ids) + 1):
        delta = running.update(ids[:n])
        if delta:
            shown = shown[: delta[0]] + delta[1]
        assert "\ufffd" not in shown
        assert text.startswith(shown)
    last = running.update(ids, final=True)
    assert (shown[: last[0]] + last[1] if last else shown) == text


def test_a_revision_keeps_the_common_start(tokenizer):
    running = Detokenizer(OutputDecoder(tokenizer))
    running.update(tokenizer("the cat")["input_ids"])
    keep, text = running.update(tokenizer("the dog ran")["input_ids"])
    assert (keep, text) == (4, "dog ran")


def test_pieces_join_to_the_text_and_partial_bytes_are_shown(tokenizer):
    pieces = Pieces(tokenizer)
    ids = tokenizer("Once upon a time")["input_ids"]
    assert "".join(pieces[i] for i in ids) == "Once upon a time"
    partial = tokenizer("👩")["input_ids"]
    assert any(pieces[i].startswith("<0x") for i in partial)
    assert pieces[tokenizer.eos_token_id] == "<|endoftext|>"
    assert pieces[10**6].startswith("<unused")


@pytest.mark.parametrize("family", ["chatml", "llama3", "gemma"])
def test_a_run_says_which_tokens_no_text_has(family):
    loaded = talker(family)
    reader = OutputDecoder(loaded.tokenizer, loaded.tokenizer("a bear")["input_ids"])
    silent = [i for i in range(loaded.vocab_size) if loaded.pieces[i] and reader.text([i]) == ""]
    request = DecodeRequest("greedy", loaded, messages=said("Hi"), params={"max_new_tokens": 1})
    trace = reread(request)
    assert set(FAMILIES[family][2]) <= {loaded.pieces[i] for i in trace.special_token_ids}
    assert set(trace.special_token_ids) <= set(silent)


def test_a_token_that_is_only_declared_special_is_one(tokenizer):
    own = deepcopy(tokenizer)
    own.add_tokens([AddedToken("<|header|>", special=True)])
    added = own.convert_tokens_to_ids("<|header|>")
    assert added in special_ids(own)
    assert added not in special_ids(tokenizer)
    assert decode_ids(own, [added]) == ""
    assert special_ids(None) == frozenset()


def test_without_a_tokenizer_ids_are_the_text():
    assert decode_ids(None, [3, 5]) == "3 5"
    assert Pieces(None)[7] == "7"
