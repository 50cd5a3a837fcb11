"""A typed text as a guess: what the model gave to it where a step chose the token that its candidates are of."""

from __future__ import annotations

import math

import pytest

from engine.analysis import gallery
from engine.errors import ParameterError
from engine.inspection import step_logits
from engine.inspection.step_questions import score_typed_text
from engine.loops.teacher_forced import run_teacher_forced
from engine.models.loading import load
from engine.trace.details import ForwardDetail
from engine.trace.records import chosen_token_id, replay_ids

RUNS = (
    "greedy-1",
    "sampling-1",
    "beam_search-1",
    "diverse_beam_search-1",
    "contrastive_search-1",
    "dola-1",
    "watermark-1",
    "speculative-1",
    "prompt_lookup-1",
)
CLOSE = 2e-4


@pytest.fixture(autouse=True)
def nothing_ready():
    step_logits._replayed_steps.clear()


def trace_of(name):
    return gallery.open_entry(gallery.find_entry(name).file)


@pytest.mark.by_day("greedy-1", "diverse_beam_search-1", "watermark-1", "prompt_lookup-1")
@pytest.mark.parametrize("name", RUNS)
def test_a_candidate_that_is_typed_has_what_the_step_recorded_of_it(name):
    trace = trace_of(name)
    compared = 0
    for index in (0, 2, 5):
        for candidate in trace.steps[index].candidates[:6]:
            odds = score_typed_text(trace, index, trace.pieces[candidate.token_id])
            # Of the two ways to read a text the likelier one is taken.
            assert odds.rank <= candidate.rank
            if odds.token_id != candidate.token_id:
                continue
            assert odds.logprob == pytest.approx(candidate.raw_logprob, abs=CLOSE)
            assert (odds.rank, odds.note) == (candidate.rank, "")
            compared += 1
    assert compared > 9


def test_a_text_outside_the_candidates_has_what_the_model_says_of_it():
    trace = trace_of("sampling-1")
    model = load(trace.model.id)
    step = trace.steps[4]
    odds = score_typed_text(trace, 4, "helicopter")
    before = replay_ids(trace.steps[:4])
    reading = run_teacher_forced(model, trace.prompt_ids, [*before, odds.token_id])
    logprobs = reading.logits[4].detach().log_softmax(-1)
    assert odds.token_id not in {c.token_id for c in step.candidates}
    assert odds.logprob == pytest.approx(float(logprobs[odds.token_id]), abs=CLOSE)
    assert odds.rank == int((logprobs > logprobs[odds.token_id]).sum())
    assert "this is about the first" in odds.note
    assert model.tokenizer("helicopter")["input_ids"][0] != odds.token_id or odds.name[0] != "·"


def test_a_word_may_be_typed_without_its_space():
    trace = trace_of("greedy-1")
    [own] = trace.steps[3].emit
    with_space, without = (
        score_typed_text(trace, 3, text) for text in (trace.pieces[own], trace.pieces[own].strip())
    )
    assert trace.pieces[own].startswith(" ")
    assert with_space == without
    assert with_space.token_id == own


def test_of_a_method_only_recorded_candidates_are_known():
    trace = trace_of("custom-1")
    index, step = next(
        (i, s) for i, s in enumerate(trace.steps) if s.candidates and chosen_token_id(s) is not None
    )
    assert isinstance(step.detail, ForwardDetail)
    candidate = step.candidates[0]
    odds = score_typed_text(trace, index, trace.pieces[candidate.token_id])
    assert candidate.raw_logprob in (odds.logprob, -math.inf)
    with pytest.raises(ParameterError, match="only recorded candidates"):
        score_typed_text(trace, index, "helicopter")


@pytest.mark.parametrize(("step", "text"), [(0, ""), (0, "x" * 201), (99999, "x"), (-1, "x")])
def test_what_cannot_be_guessed_is_refused(step, text):
    with pytest.raises(ParameterError):
        score_typed_text(trace_of("greedy-1"), step, text)
