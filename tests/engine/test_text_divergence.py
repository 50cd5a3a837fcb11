"""Where runs part, by hand and on recorded runs."""

from __future__ import annotations

import dataclasses

import pytest

from engine import DecodeRequest
from engine.statistics.text_divergence import common_prefix_length, diff_tokens
from engine.trace.records import Candidate, ModelInfo, Output, Step, Trace
from engine.trace.served import ServedInfo
from tests.helpers.models import golden_model
from tests.helpers.runs import finished, parts_at

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


def test_the_first_difference_is_found_and_an_output_that_ends_earlier_parts_there():
    assert parts_at([trace(3, 4, 5), trace(3, 5, 5), trace(3, 4)]) == 1
    assert parts_at([trace(3, 4), trace(3, 4, 5)]) == 2


def test_equal_outputs_do_not_part():
    assert parts_at([trace(3, 4), trace(3, 4)]) is None
    assert parts_at([trace(), trace()]) is None


def test_other_vocabularies_are_compared_by_their_pieces():
    assert parts_at([trace(3), trace(90, vocab=120)]) is None
    assert parts_at([trace(3), trace(90)]) == 0


def test_vocabularies_of_one_size_in_which_an_id_has_two_pieces_are_compared_by_pieces():
    other = dataclasses.replace(trace(3, 5), pieces={3: " b", 5: " a"})
    assert parts_at([trace(3), other]) == 0
    assert parts_at([trace(4, 3), other]) is None


def test_a_server_that_spells_a_token_otherwise_still_has_its_id():
    server = ServedInfo("llamacpp", measured=True, choice="greedy")
    there = dataclasses.replace(trace(3, 4), served=server, pieces={3: " a", 4: ""})
    assert parts_at([trace(3, 4), there]) is None


@pytest.mark.parametrize(
    ("texts", "ended", "found"),
    [
        (["ab", "ac"], [True, True], (1, True)),
        (["ab", "a"], [True, False], (1, False)),
        (["ab", "a"], [False, True], (1, True)),
        (["ab", "ab"], [False, True], (2, False)),
        (["", "x", ""], [False, False, False], (0, False)),
        (["abc", "abd", "ab"], [False, False, False], (2, True)),
    ],
    ids=str,
)
def test_a_text_that_continues_may_still_agree(texts, ended, found):
    assert common_prefix_length(texts, ended) == found


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
    edits = diff_tokens(a, b)
    assert [edit.kind for edit in edits] == kinds
    assert sum(e.a1 - e.a0 for e in edits) == len(a)
    assert sum(e.b1 - e.b0 for e in edits) == len(b)


def test_recorded_runs_part_where_their_tokens_do():
    loaded = golden_model("llama")
    params = {"max_new_tokens": 16}
    greedy = DecodeRequest("greedy", loaded, input_ids=PROMPT, params=params)
    drawn = dataclasses.replace(greedy, strategy="sampling", seed=3)
    traces = [finished(request) for request in (greedy, drawn)]
    at = parts_at(traces)
    ids = [t.outputs[0].token_ids for t in traces]
    assert ids[0][:at] == ids[1][:at]
    assert ids[0][at] != ids[1][at]
    # The prefix is common, so both saw the model's same distribution.
    seen = [{c.token_id: c.raw_logprob for c in t.steps[at].candidates} for t in traces]
    top = ids[0][at]
    assert seen[1][top] == pytest.approx(seen[0][top], abs=1e-4)
