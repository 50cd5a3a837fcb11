"""The page is told which drafts there are for a model, and of one that was made for early exit."""

from __future__ import annotations

from engine.models.draft_pairs import find_draft_pairs
from engine.sources.source import Source
from playground.inspect.questions import answer_question


def test_the_page_learns_what_the_engine_finds():
    told = answer_question({"action": "drafts", "strategy": "speculative", "model": "storyteller"})
    [found] = find_draft_pairs(Source.parse("storyteller"), "same_tokenizer")
    assert told == {
        "drafts": [{"name": found.name, "here": True, "reason": found.reason}],
        "early_exit": None,
    }


def test_a_strategy_without_a_draft_asks_for_none():
    asked = {"action": "drafts", "strategy": "early_exit"}
    told = answer_question({**asked, "model": "facebook/layerskip-llama3.2-1B"})
    assert told["drafts"] == []
    assert "LayerSkip" in told["early_exit"]
    assert answer_question({**asked, "model": 5}) == {"drafts": [], "early_exit": None}
