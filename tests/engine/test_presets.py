"""The presets that no other test covers do on the embedded model what they say."""

from __future__ import annotations

import itertools
import math
import statistics

import pytest

from engine import STRATEGIES, DecodeRequest, Trace, load
from engine.analysis.likelihood import score_trace
from engine.analysis.watermark_detection import Detection, detect_trace
from engine.loops.beams.greedy_path import divergence_index
from engine.strategies.base import STORY
from tests.helpers.runs import finished


def written(strategy: str, prompt: str, seed: int = 0, **params: object) -> Trace:
    return finished(DecodeRequest(strategy, prompt=prompt, params=params, seed=seed))


def preset(strategy: str, name: str) -> Trace:
    chosen = next(p for p in STRATEGIES[strategy].presets if p.name == name)
    return written(strategy, chosen.prompt, chosen.seed, **chosen.params)


def test_the_shared_opening_is_continued_in_many_ways():
    texts = {
        written("sampling", STORY, seed, max_new_tokens=8).outputs[0].text for seed in range(8)
    }
    assert len(texts) >= 7


@pytest.mark.nightly
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


@pytest.mark.nightly
def test_temperature_and_nucleus_change_what_can_be_drawn():
    cool, hot = preset("sampling", "Cool and careful"), preset("sampling", "Hot and wild")
    assert 1.5 < cool.metrics["perplexity"] < hot.metrics["perplexity"] / 20
    kept = [step.stages[-1].kept for step in preset("sampling", "Nucleus").steps]
    assert min(kept) == 1
    assert max(kept) > 20


@pytest.mark.nightly
def test_the_loop_is_discouraged_and_short_repeats_stay():
    looping, discouraged = (
        preset("greedy", "Stuck in a loop"),
        preset("greedy", "The loop discouraged"),
    )
    assert looping.metrics["rep_3"] > 0.5
    assert 0 < discouraged.metrics["rep_3"] < 0.2


def test_without_the_obvious_the_likeliest_tokens_are_removed_in_some_steps():
    removed = []
    for step in preset("sampling", "Without the obvious").steps:
        best = max(step.candidates, key=lambda candidate: candidate.raw_logprob)
        removed.append(best.processed_logprob < -50)
    assert 5 < sum(removed) < len(removed) / 2


@pytest.mark.nightly
def test_a_hot_text_is_steered_to_its_surprise():
    hot, steered = preset("sampling", "Hot and wild"), preset("sampling", "Hot, but steered")
    assert hot.metrics["perplexity"] > 100
    assert 1.5 < math.log2(steered.metrics["perplexity"]) < 2.5


@pytest.mark.nightly
def test_hot_beams_write_a_less_probable_text():
    model = load("storyteller")
    drawn, hot = (
        score_trace(preset("beam_sampling", name), model, model).perplexity
        for name in ("Drawn beams", "Hot beams")
    )
    assert hot > 1.2 * drawn


def test_the_pool_of_drawn_beams_is_in_the_order_of_the_draw():
    pools = [step.detail.pool for step in preset("beam_sampling", "Drawn beams").steps]
    for pool in pools:
        arrivals = [node.arrival for node in sorted(pool, key=lambda node: node.rank)]
        assert arrivals == sorted(arrivals)
    sums = [[node.sum_logprobs for node in sorted(p, key=lambda node: node.rank)] for p in pools]
    assert any(values != sorted(values, reverse=True) for values in sums)


def test_beams_of_one_group_are_alike_and_the_groups_are_not():
    trace = preset("diverse_beam_search", "Two groups of three")
    nodes = {node.node_id: node for step in trace.steps for node in step.detail.pool}
    texts: dict[int, list[tuple[int, ...]]] = {0: [], 1: []}
    for hypothesis in trace.steps[-1].detail.heap:
        path, at = [], nodes.get(hypothesis.node_id)
        while at:
            path.insert(0, at.token_id)
            at = nodes.get(at.parent_id)
        texts[hypothesis.group].append(tuple(path))
    within = [
        divergence_index(*pair)
        for group in texts.values()
        for pair in itertools.combinations(group, 2)
    ]
    between = [divergence_index(*pair) for pair in itertools.product(*texts.values())]
    assert statistics.fmean(within) > 2 * statistics.fmean(between)


def test_dola_shows_easy_tokens_in_early_layers_and_hard_ones_in_the_last():
    easy, hard = [], []
    for step in preset("dola", "How a token forms").steps:
        own = next(c.raw_logprob for c in step.candidates if c.token_id == step.emit[0])
        ranks = [reading.normed_rank for reading in step.detail.layers]
        found = len(ranks) - next(
            (i for i, rank in enumerate(reversed(ranks)) if rank >= 10), len(ranks)
        )
        (easy if own > -1 else hard if own < -3 else []).append(found)
    assert len(easy) > 8 < len(hard)
    assert max(easy) <= 4
    assert statistics.median(hard) >= 12


def test_prompt_lookup_tries_the_longest_match_first():
    steps = preset("prompt_lookup", "The longest match first").steps
    found = [step.detail.match[0] for step in steps if step.detail.match]
    assert max(found) == 4
    assert len(set(found)) > 2


def test_the_adapting_draft_grows_where_it_is_right():
    lengths = [s.detail.requested_length for s in preset("speculative", "The draft adapts").steps]
    assert len(set(lengths)) > 3
    assert max(lengths) > lengths[0]


def judged(name: str) -> Detection:
    return detect_trace(preset("watermark", name))


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["Green lists", "SynthID", "Selfhash"])
def test_the_mark_is_found_within_a_few_dozen_tokens(name):
    found = judged(name)
    assert found.verdict.prediction
    assert not found.verdict.doubtful
    below = [n for n, z in enumerate(found.curve, 1) if z is None or z <= 3]
    assert below[-1] < 36


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["Too faint", "Known by heart"])
def test_a_faint_mark_and_one_that_cannot_act_are_not_found(name):
    assert judged(name).verdict.z_score < 2


@pytest.mark.nightly
def test_a_story_known_by_heart_is_the_same_with_and_without_the_mark():
    marked = preset("watermark", "Known by heart")
    assert marked.metrics["perplexity"] < 1.1
    plain = written("sampling", marked.prompt, max_new_tokens=100)
    assert marked.outputs[0].token_ids == plain.outputs[0].token_ids
