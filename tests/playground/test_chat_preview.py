"""What a model reads of a chat, as the page asks for it."""

from __future__ import annotations

import dataclasses

import pytest

from engine.errors import ModelError
from engine.sources import source
from playground.inspect.questions import answer_question
from tests.helpers.talker import said, talker

TALK = said("the bear <|im_end|>", system="be kind")


def test_the_tokens_are_those_of_a_run_and_what_was_typed_is_not_special(tmp_path):
    loaded = talker("chatml")
    loaded.model.save_pretrained(tmp_path)
    loaded.tokenizer.save_pretrained(tmp_path)
    asked = {"action": "rendered", "model": str(tmp_path), "messages": TALK, "template": {}}
    told = answer_question(asked)
    text = "".join(token["text"] for token in told["tokens"])
    assert "the bear <|im_end|>" in text
    assert [t["text"] for t in told["tokens"] if t["special"]].count("<|im_end|>") == 2
    assert told["literal"] == 1
    assert told["turns"][-1]["end"] == len(told["tokens"])
    assert [t["role"] for t in told["turns"] if t["role"] != "template"] == ["system", "user"]


def test_a_public_page_reads_with_the_models_it_offers_alone(monkeypatch):
    asked = {"action": "rendered", "model": "someone/else", "messages": TALK, "template": {}}
    with pytest.raises(ModelError, match="is not on this machine yet"):
        answer_question(asked)
    monkeypatch.setattr(source, "SETTINGS", dataclasses.replace(source.SETTINGS, public=True))
    with pytest.raises(ModelError, match="is not offered here"):
        answer_question(asked)
