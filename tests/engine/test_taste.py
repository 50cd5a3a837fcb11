"""Texts for a blind taste test: they are what the strategies write, measured as runs are; and the sign test."""

from __future__ import annotations

import itertools

import pytest

from engine.analysis import examples, gallery, taste
from engine.analysis.likelihood import score_trace
from engine.models.loading import load
from engine.statistics.metrics import repetition_rate
from engine.statistics.sign_test import sign_test

RECORDED = examples.load_continuations()["prompts"]


def test_every_prompt_has_a_text_of_every_way():
    assert [entry["prompt"] for entry in RECORDED] == list(taste.PROMPTS)
    assert len(set(taste.PROMPTS)) == 24
    for entry in RECORDED:
        assert [(t["strategy"], t["params"]) for t in entry["texts"]] == [
            (name, params) for name, params in taste.TASTE_STRATEGIES
        ]
        assert len({t["text"] for t in entry["texts"]}) > 1
        for text in entry["texts"]:
            assert text["text"].strip()
            assert 1 < text["perplexity"] < 1000
            assert 0 <= text["rep_3"] <= 1
            assert 0 < text["tokens"] <= taste.TOKENS


@pytest.mark.nightly
def test_a_recorded_text_is_what_its_strategy_writes():
    strategy, params = taste.TASTE_STRATEGIES[0]
    given = {**params, "max_new_tokens": taste.TOKENS}
    trace = gallery.record_run(strategy, taste.PROMPTS[0], given, 0)
    found = taste.measure_continuation(trace, params, load(trace.model.id))
    recorded = RECORDED[0]["texts"][0]
    assert found.text == recorded["text"]
    assert found.perplexity == pytest.approx(recorded["perplexity"], rel=1e-4)
    assert found.perplexity == score_trace(trace, load(trace.model.id)).perplexity
    assert found.rep_3 == recorded["rep_3"] == repetition_rate(trace.outputs[0].token_ids, 3)
    assert found.tokens == len(trace.outputs[0].token_ids)


def test_the_file_is_small():
    assert (examples.FOLDER / "taste.json.gz").stat().st_size < 60_000


def test_the_sign_test_counts_all_outcomes():
    assert sign_test(0, 0) == 1
    for trials in range(1, 9):
        outcomes = [sum(o) for o in itertools.product((0, 1), repeat=trials)]
        for wins in range(trials + 1):
            uneven = abs(2 * wins - trials)
            as_uneven = sum(abs(2 * other - trials) >= uneven for other in outcomes)
            assert sign_test(wins, trials) == pytest.approx(as_uneven / 2**trials)
