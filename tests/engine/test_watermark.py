"""Watermarks: transformers' own tokens, counts, z and g-values; the exact p-value; the cost."""

from __future__ import annotations

import itertools
import math
import random
import time

import pytest
import torch
from transformers import (
    SynthIDTextWatermarkingConfig,
    SynthIDTextWatermarkLogitsProcessor,
    WatermarkDetector,
    WatermarkingConfig,
    WatermarkLogitsProcessor,
)

from engine import DecodeRequest, decode, trace_json
from engine.config import as_dict
from engine.detect import detect_ids, detect_trace, watermark_config
from engine.errors import ParameterError
from engine.events import Finished
from engine.loops import watermark as loop
from engine.watermark import processors
from engine.watermark.processors import GreenListProcessor, in_heads, make_processor
from engine.watermark.schemes import EXAMPLE_KEYS, GreenList, SynthId, scheme_of
from engine.watermark.scoring import NO_CONTEXT, PROMPT, Tally, chances_of, judge, marks_of
from engine.watermark.statistics import Verdict, binomial_tail, normal_tail, running_z
from tests.helpers.models import golden_model, native

PROMPT_IDS = [5, 9, 11, 4]
GREEN = [
    {},
    {"bias": 4.0, "greenlist_ratio": 0.5},
    {"context_width": 3, "hashing_key": 2**32 - 1},
    {"seeding_scheme": "selfhash", "greenlist_ratio": 0.5},
    {"seeding_scheme": "selfhash", "context_width": 3, "bias": 4.0},
    {"seeding_scheme": "selfhash", "context_width": 4, "hashing_key": 7, "greenlist_ratio": 0.6},
]
SYNTHID = [
    {},
    {"ngram_len": 2, "keys": [1, 2, 3]},
    {"ngram_len": 4, "keys": [9] * 30, "skip_first_ngram_calls": True, "context_history_size": 2},
    {"ngram_len": 3, "sampling_table_size": 256, "sampling_table_seed": 5, "debug_mode": True},
]


def finish(params, model="llama", seed=3, tokens=40, ids=PROMPT_IDS):
    request = DecodeRequest(
        "watermark",
        golden_model(model),
        input_ids=ids,
        seed=seed,
        params={"max_new_tokens": tokens, **params},
    )
    last = list(decode(request))[-1]
    assert isinstance(last, Finished), last.error
    return last.trace


def theirs(params):
    if params.get("scheme") == "synthid":
        own = {k: v for k, v in params.items() if k != "scheme"}
        return SynthIDTextWatermarkingConfig(**{"ngram_len": 5, "keys": list(EXAMPLE_KEYS), **own})
    return WatermarkingConfig(**params)


ALL = [*GREEN, *({"scheme": "synthid", **p} for p in SYNTHID)]


@pytest.mark.parametrize("params", ALL, ids=str)
@pytest.mark.parametrize("do_sample", [True, False])
def test_tokens_are_those_of_generate(params, do_sample):
    trace = finish({**params, "do_sample": do_sample})
    expected = native(
        golden_model("llama"),
        PROMPT_IDS,
        3,
        do_sample=do_sample,
        max_new_tokens=40,
        watermarking_config=theirs(params),
    )
    assert [list(o.token_ids) for o in trace.outputs] == expected


@pytest.mark.parametrize("params", [{}, GREEN[4], {"scheme": "synthid"}], ids=str)
@pytest.mark.parametrize("model", ["t5", "gpt2"])
def test_batches_processors_and_other_architectures(params, model):
    more = {
        "num_return_sequences": 3,
        "temperature": 0.8,
        "top_k": 30,
        "renormalize_logits": True,
        "repetition_penalty": 1.1,
    }
    trace = finish({**params, **more}, model)
    expected = native(
        golden_model(model),
        PROMPT_IDS,
        3,
        do_sample=True,
        max_new_tokens=40,
        watermarking_config=theirs(params),
        **more,
    )
    assert [list(o.token_ids) for o in trace.outputs] == expected


def counted(trace, sequence=0):
    details = [s.detail for s in trace.steps_of(sequence)]
    return [d for d in details if d.scored]


def body(ids, eos):
    """Cut a text before its end, which transformers' detector leaves to the caller."""
    return next((ids[:i] for i, token in enumerate(ids) if token in eos), ids)


@pytest.mark.parametrize("params", GREEN, ids=str)
@pytest.mark.parametrize("ignore", [False, True])
@pytest.mark.parametrize("model", ["llama", "t5"])
def test_the_live_marks_sum_to_the_detectors_count(params, ignore, model):
    trace = finish(
        {**params, "ignore_repeated_ngrams": ignore, "eos_token_id": [96]}, model, tokens=60
    )
    ids = body(list(trace.outputs[0].token_ids), [96])
    config = golden_model(model).model.config
    theirs_says = WatermarkDetector(
        config, "cpu", WatermarkingConfig(**params), ignore_repeated_ngrams=ignore
    )(torch.tensor([ids]), return_dict=True)
    marks = counted(trace)
    assert len(marks) == theirs_says.num_tokens_scored[0]
    assert sum(d.is_green for d in marks) == theirs_says.num_green_tokens[0]
    verdict = detect_trace(trace).verdict
    assert verdict.z_score == pytest.approx(theirs_says.z_score[0], abs=1e-12)


def repetitive(rng, vocab=97, length=None):
    """Return a text in which n-grams come back."""
    alphabet = rng.sample(range(vocab), rng.randint(3, 40))
    return [rng.choice(alphabet) for _ in range(length or rng.randint(8, 80))]


@pytest.mark.parametrize("ignore", [False, True])
def test_masks_sum_to_the_detectors_count_on_200_random_texts(ignore):
    rng, model = random.Random(5), golden_model("llama").model.config
    pairs = []
    for params in GREEN:
        config = watermark_config({**params, "ignore_repeated_ngrams": ignore})
        detector = WatermarkDetector(
            model, "cpu", WatermarkingConfig(**params), ignore_repeated_ngrams=ignore
        )
        pairs.append((config, detector))
    uncounted = 0
    for number in range(200):
        config, detector = pairs[number % len(pairs)]
        ids = repetitive(rng)
        ids = [model.bos_token_id, *ids] if number % 3 == 0 else ids
        expected = detector(torch.tensor([ids]), z_threshold=2.0, return_dict=True)
        found = detect_ids(ids, config, 97, bos_token_id=model.bos_token_id)
        scored = [m for m in found.marks if m.scored]
        assert len(scored) == expected.num_tokens_scored[0] == found.verdict.num_tokens_scored
        assert sum(m.is_green for m in scored) == expected.num_green_tokens[0]
        assert found.verdict.fraction == pytest.approx(expected.green_fraction[0])
        assert found.verdict.z_score == pytest.approx(expected.z_score[0], abs=1e-12)
        assert found.curve[-1] == pytest.approx(expected.z_score[0], abs=1e-12)
        assert found.verdict.p_value_normal == pytest.approx(expected.p_value[0], rel=1e-9)
        assert found.verdict.prediction == (expected.z_score[0] > 3)
        uncounted += sum(m.reason == "repeated n-gram" for m in found.marks)
    assert (uncounted > 500) is ignore


@pytest.mark.parametrize("params", SYNTHID, ids=str)
def test_g_values_and_masks_are_those_of_the_processor(params):
    scheme = SynthId(**{**params, "keys": tuple(params.get("keys", EXAMPLE_KEYS))})
    values = {**vars(scheme), "keys": list(scheme.keys)}
    theirs_does = SynthIDTextWatermarkLogitsProcessor(**values, device="cpu")
    rng = random.Random(1)
    for _ in range(20):
        ids = repetitive(rng, length=50)
        rows = torch.tensor([ids])
        g_values = theirs_does.compute_g_values(rows)[0].tolist()
        mask = theirs_does.compute_context_repetition_mask(rows)
        end = theirs_does.compute_eos_token_mask(rows, ids[30])[:, scheme.ngram_len - 1 :]
        whole = marks_of(ids, Tally(make_processor(scheme, 97, "cpu")))
        start = scheme.ngram_len - 1
        assert [list(m.g_values) for m in whole[start:]] == g_values
        assert [m.scored for m in whole] == [False] * start + mask[0].bool().tolist()
        cut = marks_of(ids, Tally(make_processor(scheme, 97, "cpu"), eos_token_ids=(ids[30],)))
        assert [m.scored for m in cut][start:] == (mask * end)[0].bool().tolist()


@pytest.mark.parametrize("params", SYNTHID, ids=str)
def test_a_live_synthid_run_records_what_a_detector_finds(params):
    trace = finish({"scheme": "synthid", **params, "eos_token_id": [96]}, tokens=60)
    found = detect_trace(trace)
    for step, mark in zip(trace.steps, found.marks, strict=True):
        assert step.detail.scored == mark.scored
        assert step.detail.is_green is None
        if mark.g_values:
            assert step.detail.g_values == mark.g_values
    assert found.verdict.trials == found.verdict.num_tokens_scored * len(trace.config["keys"])


def test_every_uncounted_token_says_why():
    trace = finish(
        {"context_width": 3, "eos_token_id": [95], "bias": 0.0, "sequence_bias": [[[95], 3.0]]},
        tokens=80,
        seed=1,
    )
    reasons = [s.detail.reason for s in trace.steps]
    assert trace.outputs[0].finish_reason == "eos"
    assert reasons[:3] == [PROMPT] * 3
    assert reasons[-1] == "end of text"
    assert set(reasons[3:-1]) == {""}
    short = finish({"context_width": 6}, tokens=10)
    assert [s.detail.reason for s in short.steps][:6] == [NO_CONTEXT] * 2 + [PROMPT] * 4
    assert [s.detail.is_green is None for s in short.steps][:3] == [True, True, False]
    assert not short.steps[0].detail.marked


@pytest.mark.parametrize("params", GREEN[:1] + GREEN[4:], ids=str)
def test_the_bias_is_said_of_the_tokens_that_got_it(params):
    trace = finish({**params, "top_k": 0})
    bias = params.get("bias", 2.0)
    ratio = params.get("greenlist_ratio", 0.25)
    for step in trace.steps:
        detail = step.detail
        gains = {c.token_id: c.processed_logprob - c.raw_logprob for c in step.candidates}
        floor = min(gains.values())
        green = set(detail.green_candidates)
        assert (step.emit[0] in green) == detail.is_green
        raised = {i for i, gain in gains.items() if gain > floor + bias / 2}
        # selfhash raises the 40 best tokens only: all candidates here, unless only green ones are.
        assert raised == green or green == set(gains)
        assert detail.bias == (bias if detail.is_green else 0.0)
        if not params.get("seeding_scheme"):
            assert detail.green_fraction == pytest.approx(int(97 * ratio) / 97, abs=1e-6)


def test_a_selfhash_token_outside_the_40_tested_can_be_green_without_a_bias():
    trace = finish({"seeding_scheme": "selfhash", "temperature": 5.0, "top_k": 0}, tokens=200)
    assert any(s.detail.is_green and s.detail.bias == 0 for s in trace.steps)


def test_a_wrong_key_and_unmarked_text_are_not_detected():
    trace = finish({"bias": 6.0, "eos_token_id": [96]}, tokens=200)
    assert detect_trace(trace).verdict.z_score > 6
    assert not detect_trace(trace, {"hashing_key": 15485864}).verdict.prediction
    plain = list(
        decode(
            DecodeRequest(
                "sampling",
                golden_model("llama"),
                input_ids=PROMPT_IDS,
                seed=3,
                params={"max_new_tokens": 200, "eos_token_id": [96]},
            )
        )
    )[-1].trace
    assert not detect_trace(plain).verdict.prediction


# --- Statistics -------------------------------------------------------------------------------


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
    assert 0 < binomial_tail(900, 1000, 0.25) < 1e-300 or binomial_tail(900, 1000, 0.25) == 0


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
        config = watermark_config({**mark, "hashing_key": rng.randrange(1, 2**31)})
        for _ in range(10):
            words = rng.sample(range(997), 24)
            after = {word: rng.choices(words, k=3) for word in words}
            text = [words[0]]
            while len(text) < 60:
                text.append(rng.choice(after[text[-1]]))
            yield detect_ids(text, config, 997).verdict


@pytest.mark.parametrize(
    "mark", [{}, {"seeding_scheme": "selfhash", "context_width": 4}], ids=["lefthash", "selfhash"]
)
def test_p_values_of_unmarked_text_are_not_too_small_though_it_repeats_itself(mark):
    values = [verdict.p_value for verdict in _verdicts_on_repetitive_texts(**mark)]
    for level in (0.5, 0.2, 0.05, 0.01):
        share = sum(p <= level for p in values) / len(values)
        assert share <= level + 3 * math.sqrt(level * (1 - level) / len(values))
    assert sum(values) / len(values) > 0.45


def test_a_z_that_only_repeats_lift_above_the_threshold_is_doubtful():
    verdicts = list(_verdicts_on_repetitive_texts())
    doubtful = [v for v in verdicts if v.doubtful]
    assert len(doubtful) > 10
    assert all(v.z_score > 3 >= v.distinct_z_score for v in doubtful)
    surely = sum(v.prediction and not v.doubtful for v in verdicts)
    assert surely / len(verdicts) <= 0.01 < sum(v.prediction for v in verdicts) / len(verdicts)


@pytest.mark.parametrize("params", GREEN, ids=str)
def test_tokens_of_one_draw_have_one_colour(params):
    config = watermark_config(params)
    processor = make_processor(scheme_of(as_dict(config)), 97, "cpu")
    size, colours, shared = processor.scheme.window, {}, 0
    rng = random.Random(2)
    for _ in range(20):
        ids = repetitive(rng, length=80)
        windows = [ids[i : i + size] for i in range(len(ids) - size + 1)]
        draws, greens = [processor.draw(w) for w in windows], processor.windows_green(windows)
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
    curve = running_z([(False, 1), (True, 1), (False, 0), (True, 0)], 1, 0.25)
    assert curve == [
        None,
        pytest.approx(3**0.5),
        pytest.approx(3**0.5),
        pytest.approx(0.5 / 0.375**0.5),
    ]


def test_a_verdict_without_a_counted_token_is_none():
    processor = make_processor(GreenList(), 97, "cpu")
    marks = marks_of([5], Tally(processor))
    assert judge(marks, chances_of(processor), 3.0) is None
    assert isinstance(
        judge(marks_of([5, 6], Tally(processor)), chances_of(processor), 3.0), Verdict
    )


# --- The short cut through torch's shuffle ----------------------------------------------------


@pytest.mark.parametrize(("vocab", "head"), [(2, 1), (5, 2), (97, 24), (97, 96), (4096, 1024)])
def test_a_token_is_in_the_head_of_torchs_permutation(vocab, head):
    rng = random.Random(vocab)
    for seed in (0, 1, 2**32, 2**64 - 2, rng.getrandbits(60)):
        order = torch.randperm(vocab, generator=torch.Generator().manual_seed(seed)).tolist()
        tokens = rng.sample(range(vocab), min(vocab, 60))
        expected = [token in set(order[:head]) for token in tokens]
        assert in_heads([seed] * len(tokens), tokens, vocab, head) == expected


@pytest.mark.parametrize("scheme", ["lefthash", "selfhash"])
def test_without_the_short_cut_the_answer_is_the_same(scheme, monkeypatch):
    settings = GreenList(seeding_scheme=scheme, context_width=2)
    rng = random.Random(2)
    windows = [[rng.randrange(97) for _ in range(settings.window)] for _ in range(100)]
    quick = make_processor(settings, 97, "cpu")
    assert quick.quick
    monkeypatch.setattr(processors, "_shuffle_is_known", lambda size: False)
    slow = make_processor(settings, 97, "cpu")
    assert not slow.quick
    assert quick.windows_green(windows) == slow.windows_green(windows)


@pytest.mark.parametrize("levels", [3, 50, 100_000])
def test_ties_and_removed_tokens_change_nothing(levels):
    torch.manual_seed(0)
    settings = {"seeding_scheme": "selfhash", "greenlist_ratio": 0.5, "bias": 3.0}
    ours = make_processor(GreenList(**settings), 97, "cpu")
    other = WatermarkLogitsProcessor(vocab_size=97, device="cpu", **settings)
    for kept in (97, 60, 41, 40, 39, 12):
        scores = torch.randint(0, levels, (2, 97)).float()
        scores[:, torch.randperm(97)[kept:]] = -torch.inf
        ids = torch.randint(0, 97, (2, 6))
        assert torch.equal(ours(ids, scores), other(ids, scores))


def test_transformers_fails_where_no_tested_token_is_green_and_we_do_not():
    settings = {"seeding_scheme": "selfhash", "greenlist_ratio": 1.5 / 97}
    ours = make_processor(GreenList(**settings), 97, "cpu")
    other = WatermarkLogitsProcessor(vocab_size=97, device="cpu", **settings)
    torch.manual_seed(0)
    failed = 0
    for _ in range(10):
        ids, scores = torch.randint(0, 97, (1, 6)), torch.randn(1, 97)
        marked = ours(ids, scores)
        try:
            assert torch.equal(marked, other(ids, scores))
        except IndexError:
            failed += 1
            assert torch.equal(marked, scores)
    assert failed > 0


def test_a_vocabulary_below_40_works():
    ours = make_processor(GreenList(seeding_scheme="selfhash"), 12, "cpu")
    scores = torch.zeros(1, 12)
    green = [ours.candidates_green(torch.tensor([3, 4]), [t])[0] for t in range(12)]
    assert ours(torch.tensor([[3, 4]]), scores)[0].tolist() == [2.0 * g for g in green]


def cost(processor, ids, scores):
    started = time.perf_counter()
    for row in scores:
        processor(ids, row[None])
    return time.perf_counter() - started


@pytest.mark.parametrize("vocab", [4096, 49_152])
def test_selfhash_is_not_slower_than_transformers(vocab):
    settings = {"seeding_scheme": "selfhash", "context_width": 4}
    ours: GreenListProcessor = make_processor(GreenList(**settings), vocab, "cpu")
    other = WatermarkLogitsProcessor(vocab_size=vocab, device="cpu", **settings)
    ids, scores = torch.randint(0, vocab, (1, 8)), torch.randn(6, vocab)
    ratios = [cost(ours, ids, scores) / cost(other, ids, scores) for _ in range(5)]
    assert sorted(ratios)[2] < 1


def test_greedy_has_one_outcome():
    with pytest.raises(ParameterError, match="do_sample"):
        watermark_config({"do_sample": False, "num_return_sequences": 2})


def test_the_trace_survives_its_file(tmp_path):
    for params in ({}, {"scheme": "synthid"}):
        trace = finish(params)
        trace_json.save(trace, tmp_path / "t.json.gz")
        assert trace_json.load(tmp_path / "t.json.gz") == trace


def test_closing_the_loop_closes_the_inner_one(monkeypatch):
    closed = []

    monkeypatch.setattr(loop._Row, "detail", lambda self, step: None)
    monkeypatch.setattr(loop.dataclasses, "replace", lambda step, detail: step)

    class Step:
        sequence = 0

    def one_step(*args, **kwargs):
        try:
            while True:
                yield Step()
        finally:
            closed.append(True)

    monkeypatch.setattr(loop, "next_token_loop", one_step)
    running = loop.watermark_loop(
        None,
        torch.tensor([[1]]),
        [make_processor(GreenList(), 97, "cpu")],
        None,
        None,
        recorder=None,
        generator=None,
        tally={},
    )
    next(running)
    running.close()
    assert closed == [True]
