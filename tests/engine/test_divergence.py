"""Where runs part, by hand and on recorded runs."""

from __future__ import annotations

import dataclasses

import pytest

from engine import DecodeRequest
from engine.reading.divergence import difference, first_divergence, side_of, step_that_wrote
from engine.trace.records import Candidate, ModelInfo, Output, Step, Trace
from tests.helpers.drafting import finish
from tests.helpers.models import golden_model
from tests.helpers.runs import finished

PROMPT = [1, 5, 6, 7, 8, 9]


def trace(*ids, steps=None, vocab=97):
    if steps is None:
        steps = [
            Step(i, i, (token,), (Candidate(token, -0.5, -0.5, 0),)) for i, token in enumerate(ids)
        ]
    return Trace(
        strategy="greedy",
        config={},
        model=ModelInfo("m", vocab_size=vocab),
        versions={},
        seed=0,
        prompt=None,
        prompt_ids=(1,),
        pieces={3: " a", 4: " b", 5: " c", 90: " a"},
        steps=tuple(steps),
        outputs=(Output(tuple(ids), "", "length"),),
    )


def test_the_first_difference_and_both_candidates():
    found = first_divergence([trace(3, 4, 5), trace(3, 5, 5), trace(3, 4)])
    assert found.position == 1
    assert [side.token_id for side in found.sides] == [4, 5, 4]
    assert [side.candidates[0].token_id for side in found.sides] == [4, 5, 4]


def test_an_output_that_ends_earlier_parts_there():
    found = first_divergence([trace(3, 4), trace(3, 4, 5)])
    assert (found.position, found.sides[0].token_id, found.sides[1].token_id) == (2, None, 5)


def test_equal_outputs_do_not_part():
    assert first_divergence([trace(3, 4), trace(3, 4)]) is None
    assert first_divergence([trace(), trace()]) is None


def test_other_vocabularies_are_compared_by_their_pieces():
    assert first_divergence([trace(3), trace(90, vocab=120)]) is None
    assert first_divergence([trace(3), trace(90)]).position == 0


def test_the_step_that_wrote_last_counts():
    steps = [Step(0, 0, (3,)), Step(1, 1, (4,)), Step(2, 0, (5, 4))]
    rewritten = trace(5, 4, steps=steps)
    assert step_that_wrote(rewritten, 0).index == 2
    assert first_divergence([rewritten, trace(3, 4)]).sides[0].candidates == ()


def test_a_drafted_token_shows_what_both_models_made_of_it():
    draft = golden_model("llama")  # the target itself, so that drafts are accepted
    params = {"max_new_tokens": 12, "num_assistant_tokens": 3}
    params["assistant_confidence_threshold"] = 0.0
    drafted = finish("speculative", params, assistant=draft)
    step = next(step for step in drafted.steps if len(step.emit) > 1)
    token = step.detail.tokens[0]
    side = side_of(drafted, step.keep)
    assert side.drafted == (token.p, token.q, "accepted")
    assert (side.token_id, side.step, side.candidates) == (token.token_id, step.index, ())
    last = side_of(drafted, step.keep + len(step.emit) - 1)
    assert (last.drafted, last.candidates) == (None, step.candidates)


@pytest.mark.parametrize(
    ("a", "b", "kinds"),
    [
        ([1, 2, 3], [1, 2, 3], ["equal"]),
        ([1, 2, 3], [1, 9, 3], ["equal", "replace", "equal"]),
        ([1, 2], [1, 2, 3], ["equal", "insert"]),
        ([], [1], ["insert"]),
    ],
)
def test_the_difference_covers_both(a, b, kinds):
    edits = difference(a, b)
    assert [edit.kind for edit in edits] == kinds
    assert sum(e.a1 - e.a0 for e in edits) == len(a)
    assert sum(e.b1 - e.b0 for e in edits) == len(b)


def test_recorded_runs_part_where_their_tokens_do():
    loaded = golden_model("llama")
    params = {"max_new_tokens": 16}
    greedy = DecodeRequest("greedy", loaded, input_ids=PROMPT, params=params)
    drawn = dataclasses.replace(greedy, strategy="sampling", seed=3)
    traces = [finished(request) for request in (greedy, drawn)]
    found = first_divergence(traces)
    ids = [t.outputs[0].token_ids for t in traces]
    assert ids[0][: found.position] == ids[1][: found.position]
    assert ids[0][found.position] != ids[1][found.position]
    top = found.sides[0].candidates[0]
    assert top.token_id == ids[0][found.position]
    # The prefix is common, so both saw the model's same distribution.
    same = {c.token_id: c.raw_logprob for c in found.sides[1].candidates}
    assert same[top.token_id] == pytest.approx(top.raw_logprob, abs=1e-4)


def test_a_search_with_beams_shows_the_pool_of_that_depth():
    loaded = golden_model("llama")
    greedy = DecodeRequest("greedy", loaded, input_ids=PROMPT, params={"max_new_tokens": 12})
    params = {"max_new_tokens": 12, "num_beams": 4}
    beams = dataclasses.replace(greedy, strategy="beam_search", params=params)
    traces = [finished(request) for request in (greedy, beams)]
    found = first_divergence(traces)
    side = found.sides[1]
    assert side.step == found.position
    assert side.token_id in {node.token_id for node in side.pool if node.fate != "pruned"}
    sums = [node.sum_logprobs for node in side.pool]
    assert sums == sorted(sums, reverse=True)
