"""DRY lowers what llama.cpp's rules lower, by as much, in every strategy; off, it changes nothing."""

from __future__ import annotations

import random

import pytest
import torch

from engine import DecodeRequest
from engine.inspection.rerun import replay_to_step
from engine.inspection.why import explain_token
from engine.processors.dry import DRYLogitsProcessor
from tests.helpers.runs import finished
from tests.helpers.strategies import make, trace_of
from visualizers import summarize_trace
from visualizers.distribution.repeats import repeat_penalties

VOCAB = 12
A, B, C, D, END = 1, 2, 3, 4, 9


def penalties(text, **settings):
    """Return token -> what the processor took from its score."""
    processor = DRYLogitsProcessor(**{"multiplier": 0.8, **settings})
    after = processor(torch.tensor([text]), torch.zeros(1, VOCAB))[0]
    return {i: -float(x) for i, x in enumerate(after) if x}


def plain_penalties(text, multiplier, base, allowed, last_n, breakers):
    """The rules once more: try every earlier place and compare tokens backwards one by one."""
    text = text if last_n < 0 else text[len(text) - last_n :] if last_n < len(text) else text
    found = {}
    for place in range(1, len(text)):
        n = 0
        while n < place and text[place - 1 - n] == text[len(text) - 1 - n]:
            if text[len(text) - 1 - n] in breakers:
                break
            n += 1
        if n >= allowed:
            found[text[place]] = max(found.get(text[place], 0), n)
    return {token: multiplier * base ** (n - allowed) for token, n in found.items()}


@pytest.mark.parametrize(
    ("text", "settings", "expected"),
    [
        # "a b c d a b c" has read three tokens of a repeat: d costs 0.8 * 1.75 ** (3 - 2).
        ([A, B, C, D, A, B, C], {}, {D: 1.4}),
        # "a b c a b": c continues a repeat of two, the shortest that counts.
        ([A, B, C, A, B], {}, {C: 0.8}),
        ([A, B, C, A], {}, {}),
        ([A, B, C, A], {"allowed_length": 1}, {B: 0.8}),
        # The longest of two repeats decides: "a b" and "d a b" both came before c.
        ([D, A, B, C, A, B, C, D, A, B], {}, {C: 1.4}),
        # Two tokens followed what repeats; each has its own length.
        ([D, A, B, C, A, B, END, D, A, B], {}, {C: 1.4, END: 0.8}),
        # A repeat may overlap itself: of "a a a a" the last three occurred one place earlier.
        ([A, A, A, A], {}, {A: 1.4}),
        # Nothing before the end mark counts: only one token of the repeat is left.
        ([A, END, C, D, A, END, C], {"breakers": (END,)}, {}),
        ([A, END, B, C, D, END, B, C], {"breakers": (END,)}, {D: 0.8}),
        ([A, B, END, C, A, B, END], {"breakers": (END,)}, {}),
        # Only the last tokens are read.
        ([A, B, C, D, A, B, C], {"penalty_last_n": 6}, {D: 0.8}),
        ([A, B, C, D, A, B, C], {"penalty_last_n": 5}, {}),
        ([A, B, C, D, A, B, C], {"penalty_last_n": 0}, {}),
        ([A, B, C, D, A, B, C], {"base": 1.0}, {D: 0.8}),
        ([A, B, C, D, A, B, C], {"multiplier": 2.0, "base": 3.0}, {D: 6.0}),
        ([], {}, {}),
    ],
)
def test_it_is_llama_cpps_rule_in_cases_done_by_hand(text, settings, expected):
    assert penalties(text, **settings) == pytest.approx(expected)


def test_a_second_implementation_gives_the_same_for_random_texts():
    chance, seen = random.Random(3), 0
    for _ in range(400):
        text = [chance.randrange(3) for _ in range(chance.randrange(1, 40))]
        base, allowed = chance.choice([1.0, 1.75, 2.5]), chance.randrange(1, 5)
        last_n, breakers = chance.choice([-1, 0, 7, 20]), chance.choice([(), (2,)])
        expected = plain_penalties(text, 0.8, base, allowed, last_n, breakers)
        found = penalties(
            text, base=base, allowed_length=allowed, penalty_last_n=last_n, breakers=breakers
        )
        assert found == pytest.approx(expected, rel=1e-5)
        seen += bool(expected)
    assert seen > 50


def test_rows_are_judged_alone_and_no_repeat_removes_a_token():
    processor = DRYLogitsProcessor(10.0, base=4.0)
    ids = torch.tensor([[A, B] * 300, [A, B, C, D, END, A] * 100])
    scores = torch.randn(2, VOCAB, generator=torch.Generator().manual_seed(0))
    after = processor(ids, scores)
    for row in (0, 1):
        assert torch.equal(after[row], processor(ids[row : row + 1], scores[row : row + 1])[0])
    assert bool(after.isfinite().all())
    assert float(after[0, A]) < -1e29


def test_off_is_no_filter_at_all():
    plain = finished(make("greedy"))
    off = finished(make("greedy", dry_multiplier=0.0, dry_base=3.0, dry_allowed_length=1))
    assert off.outputs == plain.outputs
    assert not any(step.stages for step in off.steps)


@pytest.mark.parametrize(
    ("strategy", "params"),
    [
        ("greedy", {}),
        ("sampling", {}),
        ("beam_search", {"num_beams": 3}),
        ("diverse_beam_search", {"num_beams": 4, "num_beam_groups": 2}),
        ("contrastive_search", {}),
        ("dola", {}),
        ("speculative", {}),
        ("prompt_lookup", {}),
        ("watermark", {}),
    ],
)
def test_every_strategy_has_it(strategy, params):
    trace = trace_of(strategy, dry_multiplier=1.5, dry_allowed_length=1, **params)
    assert "DRY" in {stage.name for step in trace.steps for stage in step.stages}


def test_it_comes_after_the_repetition_penalty_and_before_all_that_cuts():
    params = {"repetition_penalty": 1.1, "top_n_sigma": 2.0, "temperature": 0.9, "top_p": 0.9}
    trace = trace_of("sampling", dry_multiplier=1.5, **params)
    names = [stage.name for stage in trace.steps[0].stages]
    assert names[:4] == ["RepetitionPenalty", "DRY", "TopNSigma", "Temperature"]


@pytest.fixture(scope="module")
def story():
    params = {"dry_multiplier": 0.8, "max_new_tokens": 12}
    return finished(DecodeRequest("greedy", prompt="She ran and ran and", params=params))


def test_a_run_repeats_less_and_records_its_marks(story):
    plain = finished(
        DecodeRequest("greedy", prompt="She ran and ran and", params={"max_new_tokens": 30})
    )
    longer = {"max_new_tokens": 30, "dry_multiplier": 0.8}
    dry = finished(DecodeRequest("greedy", prompt="She ran and ran and", params=longer))
    repeated = " She ran and ran until"
    assert repeated in plain.outputs[0].text
    assert repeated not in dry.outputs[0].text
    pieces = {story.pieces.get(i, "") for i in story.config["dry_sequence_breakers"]}
    assert len(story.config["dry_sequence_breakers"]) == 4, pieces


def test_a_repeat_of_hundreds_of_tokens_has_a_penalty_that_removes_nothing():
    text = [A] * 700
    assert penalties(text, multiplier=1.0, base=4.0) == {A: pytest.approx(1e30)}
    names = ("multiplier", "base", "allowed_length", "penalty_last_n", "sequence_breakers")
    config = {f"dry_{n}": v for n, v in zip(names, (1.0, 4.0, 2, -1, ()), strict=True)}
    assert repeat_penalties(config, text) == {A: (699, 1e30)}


def test_the_x_ray_says_which_repeat_and_by_how_much(story):
    """“ and ran and” would go on as before: “ ran” continues a repeat of one token, “ and” of none."""
    found = repeat_penalties(story.config, story.prompt_ids)
    [first] = summarize_trace(story, ["xray"])[:1]
    shown = first["xray"]["repeats"]
    assert shown
    for token, length, penalty in shown:
        assert found[token] == (length, pytest.approx(penalty, abs=1e-4))
    candidates = {c.token_id: c for c in story.steps[0].candidates}
    token, _, penalty = shown[0]
    other = next(c for c in candidates.values() if c.token_id not in found)
    own = candidates[token]
    # Against any other token, its log-probability falls by the penalty.
    gap = (own.processed_logprob - other.processed_logprob) - (own.raw_logprob - other.raw_logprob)
    assert gap == pytest.approx(-penalty, abs=1e-4)


def test_why_says_which_repeat_the_token_would_continue(story):
    token, length, _ = summarize_trace(story, ["xray"])[0]["xray"]["repeats"][0]
    facts = {fact.name: fact for fact in explain_token(replay_to_step(story, 0), token).facts}
    assert facts["DRY"].value.startswith("−")
    assert facts["DRY"].meaning.startswith(f"It would continue a repeat of {length} tokens.")
