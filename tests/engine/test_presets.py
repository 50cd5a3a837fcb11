"""The presets of greedy search, sampling and the watermark do on the embedded model what they say."""

from __future__ import annotations

import statistics

import pytest

from engine import STRATEGIES, DecodeRequest, Trace, decode, load
from engine.detect import Detection, detect_trace
from engine.scoring import score_trace
from engine.strategies.base import STORY
from playground import compare_spec


def written(strategy: str, prompt: str, seed: int = 0, **params: object) -> Trace:
    *_, last = decode(DecodeRequest(strategy, prompt=prompt, params=params, seed=seed))
    return last.trace


def preset(strategy: str, name: str) -> Trace:
    chosen = next(p for p in STRATEGIES[strategy].presets if p.name == name)
    return written(strategy, chosen.prompt, chosen.seed, **chosen.params)


def test_the_shared_opening_is_continued_in_many_ways():
    texts = {
        written("sampling", STORY, seed, max_new_tokens=8).outputs[0].text for seed in range(8)
    }
    assert len(texts) >= 7


def test_greedy_search_is_stuck_until_the_loop_is_forbidden():
    stuck, free = preset("greedy", "Stuck in a loop"), preset("greedy", "The loop forbidden")
    assert stuck.metrics["rep_3"] > 0.8
    third = len(stuck.steps) // 3
    early, late = (
        statistics.fmean(-step.candidates[0].raw_logprob for step in part)
        for part in (stuck.steps[:third], stuck.steps[-third:])
    )
    assert late < early / 2
    assert free.metrics["rep_3"] == 0
    removed = [c.removed_by for step in free.steps for c in step.candidates if c.removed_by]
    assert set(removed) == {"NoRepeatNGram"}


def test_temperature_and_nucleus_change_what_can_be_drawn():
    cool, hot = preset("sampling", "Cool and careful"), preset("sampling", "Hot and wild")
    assert 1.5 < cool.metrics["perplexity"] < hot.metrics["perplexity"] / 20
    kept = [step.stages[-1].kept for step in preset("sampling", "Nucleus").steps]
    assert min(kept) == 1
    assert max(kept) > 20


def test_hot_beams_write_a_less_probable_text():
    model = load("storyteller")
    drawn, hot = (
        score_trace(preset("beam_sampling", name), model, model).perplexity
        for name in ("Drawn beams", "Hot beams")
    )
    assert hot > 1.2 * drawn


def judged(name: str) -> Detection:
    return detect_trace(preset("watermark", name))


@pytest.mark.parametrize("name", ["Green lists", "Selfhash", "SynthID"])
def test_the_mark_is_found_within_a_few_dozen_tokens(name):
    found = judged(name)
    assert found.verdict.prediction
    assert not found.verdict.doubtful
    below = [n for n, z in enumerate(found.curve, 1) if z is None or z <= 3]
    assert below[-1] < 36


@pytest.mark.parametrize("name", ["Too faint", "Known by heart"])
def test_a_faint_mark_and_one_that_cannot_act_are_not_found(name):
    assert judged(name).verdict.z_score < 2


def test_a_story_known_by_heart_is_the_same_with_and_without_the_mark():
    marked = preset("watermark", "Known by heart")
    assert marked.metrics["perplexity"] < 1.1
    plain = written("sampling", marked.prompt, max_new_tokens=100)
    assert marked.outputs[0].token_ids == plain.outputs[0].token_ids


def test_the_hotter_the_sooner_the_compared_texts_part_and_the_less_likely_they_are():
    hotter = next(p for p in compare_spec.presets() if p.name == "Greedy and three temperatures")
    traces = [written(name, hotter.prompt, **params) for name, params in hotter.columns]
    greedy, *sampled = [trace.outputs[0].token_ids for trace in traces]
    parted = [
        next(i for i, pair in enumerate(zip(greedy, ids, strict=False)) if len(set(pair)) > 1)
        for ids in sampled
    ]
    assert parted == sorted(parted, reverse=True)
    assert len(set(parted)) == 3
    likely = [trace.metrics["perplexity"] for trace in traces]
    assert likely == sorted(likely)
