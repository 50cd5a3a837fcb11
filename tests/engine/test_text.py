"""Pieces and running text: split UTF-8, special tokens, revisions."""

from __future__ import annotations

import pytest

from engine import load
from engine.models.text import Detokenizer, Pieces, Reader, decode_ids


@pytest.fixture(scope="module")
def tokenizer():
    return load("storyteller").tokenizer


@pytest.mark.parametrize("text", ["a 👩‍👩‍👧 b", "naïve café", "日本語", "x\n\ty", " two  spaces"])
def test_running_text_never_shows_half_a_character_and_ends_right(tokenizer, text):
    ids = tokenizer(text)["input_ids"]
    running, shown = Detokenizer(Reader(tokenizer)), ""
    for n in range(1, len(ids) + 1):
        delta = running.update(ids[:n])
        if delta:
            shown = shown[: delta[0]] + delta[1]
        assert "\ufffd" not in shown
        assert text.startswith(shown)
    last = running.update(ids, final=True)
    assert (shown[: last[0]] + last[1] if last else shown) == text


def test_a_revision_keeps_the_common_start(tokenizer):
    running = Detokenizer(Reader(tokenizer))
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


def test_without_a_tokenizer_ids_are_the_text():
    assert decode_ids(None, [3, 5]) == "3 5"
    assert Pieces(None)[7] == "7"
