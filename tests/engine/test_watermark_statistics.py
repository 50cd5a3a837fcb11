"""A watermark's p-values and z: by hand, over all outcomes, and on unmarked texts that repeat themselves."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import pytest

from engine.analysis.watermark_detection import build_watermark_config, detect_ids
from engine.declare.config import config_to_dict
from engine.statistics.watermark_statistics import (
    Verdict,
    binomial_tail,
    normal_tail,
    running_z_scores,
)
from engine.watermark.marks import Tally, judge_marks, mark_tokens, null_hypothesis
from engine.watermark.processors import make_processor
from engine.watermark.schemes import GreenList, scheme_from_config
from tests.helpers.watermarks import GREEN, repetitive


@pytest.mark.parametrize(("trials", "chance"), [(1, 0.25), (6, 0.25), (9, 0.5), (7, 0.9)])
def test_the_exact_p_value_is_the_sum_over_all_outcomes(trials, chance):
    for hits in range(trials + 1):
        total = sum(
            math.prod(chance if flip else 1 - chance for flip in flips)
            for flips in itertools.product((0, 1), repeat=trials)
            if sum(flips) >= hits
        )
        assert binomial_tail(hits, trials, chance) == pytest.approx(total, rel=1e-12)


def test_the_exact_p_value_for_large_counts():
    assert binomial_tail(501, 1000, 0.5) + binomial_tail(500, 1000, 0.5) == pytest.approx(
        1, rel=1e-9
    )
    assert binomial_tail(100, 100, 0.25) == pytest.approx(0.25**100, rel=1e-9)
    assert binomial_tail(0, 0, 0.25) == 1.0
    # Below what a float can hold there is nothing but 0.
    assert binomial_tail(900, 1000, 0.25) == 0
    outcomes = (math.comb(1000, k) * 3 ** (1000 - k) for k in range(700, 1001))
    assert binomial_tail(700, 1000, 0.25) == pytest.approx(
        float(Fraction(sum(outcomes), 4**1000)), rel=1e-9
    )


def test_the_normal_tail_has_its_square_root():
    def polya(z, root):
        inner = 1 - math.exp(-2 * z * z / math.pi)
        return 1 - 0.5 * (1 + math.copysign(math.sqrt(inner) if root else inner, z))

    known = {0.0: 0.5, 1.0: 0.158655254, 1.959964: 0.025, 3.0: 0.001349898}
    for z, p in known.items():
        assert normal_tail(z) == pytest.approx(p, rel=1e-5)
    for z in (0.5, 1.0, 1.5, 2.0):
        assert polya(z, True) == pytest.approx(normal_tail(z), rel=0.15)  # its own error
        assert polya(z, False) > 1.35 * normal_tail(z)
    assert polya(4.0, False) < 0.7 * normal_tail(4.0)


def _verdicts_on_repetitive_texts(**mark):
    """Judge 400 unmarked texts, each of a few words that follow each other again and again."""
    rng = random.Random(0)
    for _ in range(40):
        config = build_watermark_config({**mark, "hashing_key": rng.randrange(1, 2**31)})
        for _ in range(10):
            words = rng.sample(range(997), 24)
            after = {word: rng.choices(words, k=3) for word in words}
            text = [words[0]]
            while len(text) < 60:
                text.append(rng.choice(after[text[-1]]))
            yield detect_ids(text, config, 997).verdict


@pytest.mark.nightly
@pytest.mark.parametrize(
    "mark", [{}, {"seeding_scheme": "selfhash", "context_width": 4}], ids=["lefthash", "selfhash"]
)
def test_p_values_of_unmarked_text_are_not_too_small_though_it_repeats_itself(mark):
    values = [verdict.p_value for verdict in _verdicts_on_repetitive_texts(**mark)]
    for level in (0.5, 0.2, 0.05, 0.01):
        share = sum(p <= level for p in values) / len(values)
        assert share <= level + 3 * math.sqrt(level * (1 - level) / len(values))
    assert sum(values) / len(values) > 0.45


@pytest.mark.nightly
def test_a_z_that_only_repeats_lift_above_the_threshold_is_doubtful():
    verdicts = list(_verdicts_on_repetitive_texts())
    doubtful = [v for v in verdicts if v.doubtful]
    assert len(doubtful) > 10
    assert all(v.z_score > 3 >= v.distinct_z_score for v in doubtful)
    surely = sum(v.prediction and not v.doubtful for v in verdicts)
    assert surely / len(verdicts) <= 0.01 < sum(v.prediction for v in verdicts) / len(verdicts)


@pytest.mark.parametrize("params", GREEN, ids=str)
def test_tokens_of_one_draw_have_one_colour(params):
    config = build_watermark_config(params)
    processor = make_processor(scheme_from_config(config_to_dict(config)), 97, "cpu")
    size, colours, shared = processor.scheme.window, {}, 0
    rng = random.Random(2)
    for _ in range(20):
        ids = repetitive(rng, length=80)
        windows = [ids[i : i + size] for i in range(len(ids) - size + 1)]
        draws, greens = (
            [processor.draw_key(w) for w in windows],
            processor.find_green_windows(windows),
        )
        for draw, green in zip(draws, greens, strict=True):
            shared += draw in colours
            assert colours.setdefault(draw, green) == green
        seen: set[tuple[int, ...]] = set()
        fresh = [draw not in seen and not seen.add(draw) for draw in draws]
        found = detect_ids(ids, config, 97)
        assert [m.fresh for m in found.marks] == [False] * (len(ids) - len(fresh)) + fresh
        assert found.verdict.distinct_trials == sum(fresh)
        assert found.verdict.distinct_hits == sum(
            green for green, new in zip(greens, fresh, strict=True) if new
        )
    assert shared


def test_a_running_z_passes_over_what_does_not_count():
    curve = running_z_scores([(False, 1), (True, 1), (False, 0), (True, 0)], 1, 0.25)
    assert curve == [
        None,
        pytest.approx(3**0.5),
        pytest.approx(3**0.5),
        pytest.approx(0.5 / 0.375**0.5),
    ]


def test_a_verdict_without_a_counted_token_is_none():
    processor = make_processor(GreenList(), 97, "cpu")
    marks = mark_tokens([5], Tally(processor))
    assert judge_marks(marks, null_hypothesis(processor), 3.0) is None
    assert isinstance(
        judge_marks(mark_tokens([5, 6], Tally(processor)), null_hypothesis(processor), 3.0), Verdict
    )
