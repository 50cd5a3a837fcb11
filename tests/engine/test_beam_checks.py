"""Every recorded search is one tree that spells its outputs, and a trace that is not is refused."""

from __future__ import annotations

import dataclasses
import math

import pytest

from engine import DecodeRequest, LoadedModel, decode
from engine.errors import TraceError
from engine.trace import json_io
from engine.trace.beam_checks import check_beams
from engine.trace.events import Finished
from tests.helpers.beams import PROMPT, searched
from tests.helpers.gates import gate
from tests.helpers.models import fresh_model, golden_model
from tests.helpers.runs import failed

MODELS = ("llama", "gpt2", "t5")
LOOSE = {"max_new_tokens": 14, "num_return_sequences": 3}
ENDING = {"sequence_bias": (((2,), 3.0),)}
RUNS = [
    ("beam_search", {"num_beams": 5, **LOOSE}),
    ("beam_search", {"num_beams": 16, **LOOSE, **ENDING, "early_stopping": "never"}),
    ("beam_search", {"num_beams": 3, **LOOSE, **ENDING, "length_penalty": -1.0}),
    ("beam_search", {"num_beams": 1, "max_new_tokens": 9, **ENDING}),
    ("beam_search", {"num_beams": 4, **LOOSE, "force_words_ids": ((50, 51), ((60,), (61, 62)))}),
    ("beam_sampling", {"num_beams": 4, **LOOSE, **ENDING, "temperature": 1.5, "top_k": 9}),
    ("diverse_beam_search", {"num_beams": 6, **LOOSE, **ENDING, "num_beam_groups": 3}),
    ("diverse_beam_search", {"num_beams": 4, **LOOSE, "num_beam_groups": 4}),
]


def error_of(strategy, model, **params):
    return str(failed(DecodeRequest(strategy, model, input_ids=PROMPT, params=params)))


@pytest.fixture(scope="module")
def trace():
    return searched("beam_search", golden_model("llama"), num_beams=4, **LOOSE, **ENDING)


@pytest.mark.by_day(3)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("strategy", "params"), RUNS, ids=str)
def test_every_recorded_search_is_one_tree(strategy, params, model):
    recorded = searched(strategy, golden_model(model), **params)
    check_beams(recorded)
    again = json_io.loads(json_io.dumps(recorded))
    assert again.steps == recorded.steps
    assert len(recorded.outputs) == params.get("num_return_sequences", 1)


def with_node(trace, step, number, **changes):
    """Return the trace with one node of one step changed."""
    detail = trace.steps[step].detail
    pool = list(detail.pool)
    pool[number] = dataclasses.replace(pool[number], **changes)
    return with_detail(trace, step, pool=tuple(pool))


def with_detail(trace, step, **changes):
    detail = dataclasses.replace(trace.steps[step].detail, **changes)
    steps = list(trace.steps)
    steps[step] = dataclasses.replace(steps[step], detail=detail)
    return dataclasses.replace(trace, steps=tuple(steps))


def test_a_tree_that_does_not_hold_together_is_refused(trace):
    dropped = next(n for n in trace.steps[1].detail.pool if n.fate == "pruned")
    best = trace.steps[-1].detail.heap[0]
    wrong = {
        "which the step before did not keep": [
            with_node(trace, 2, 0, parent_id=dropped.node_id),
            with_node(trace, 2, 0, parent_id=-1),
            with_node(trace, 0, 0, parent_id=7),
        ],
        "not the sum of its path": [with_node(trace, 1, 0, logprob=-0.001)],
        "length ** length_penalty": [with_node(trace, 1, 0, score=-0.001)],
        "occurs twice": [with_node(trace, 1, 0, node_id=0)],
        "keeps 4 beams of 3": [dataclasses.replace(trace, config={**trace.config, "num_beams": 3})],
        "its tree does not hold": [
            with_detail(trace, 13, heap=(dataclasses.replace(best, length=best.length + 1),)),
            with_detail(trace, 13, heap=(dataclasses.replace(best, node_id=9999),)),
        ],
        "is no path of the search's tree": [
            dataclasses.replace(
                trace, outputs=(dataclasses.replace(trace.outputs[0], token_ids=(5, 5)),)
            )
        ],
        "not the path of the search's winner": [
            dataclasses.replace(trace, outputs=trace.outputs[::-1])
        ],
    }
    for says, traces in wrong.items():
        for broken in traces:
            with pytest.raises(TraceError, match=says.replace("*", r"\*")):
                check_beams(broken)


def test_a_file_with_a_wrong_parent_is_not_read(trace):
    text = json_io.dumps(with_node(trace, 3, 1, parent_id=0))
    with pytest.raises(TraceError, match="Step 3"):
        json_io.loads(text)


@pytest.mark.parametrize("strategy", ["beam_search", "beam_sampling", "diverse_beam_search"])
@pytest.mark.parametrize("left", [1, 2, 3])
def test_fewer_tokens_than_beams(strategy, left):
    model = golden_model("llama")
    allowed = range(10, 10 + left)
    banned = [i for i in range(model.model.config.vocab_size) if i not in allowed]
    recorded = searched(strategy, model, num_beams=4, max_new_tokens=5, suppress_tokens=banned)
    check_beams(recorded)
    for step in recorded.steps:
        for node in step.detail.pool:
            assert node.token_id in allowed
            assert all(map(math.isfinite, (node.logprob, node.sum_logprobs, node.score)))
            assert abs(node.margin) < 1000


@pytest.mark.parametrize("strategy", ["beam_search", "beam_sampling", "diverse_beam_search"])
def test_no_token_left_is_said(strategy):
    model = golden_model("llama")
    banned = list(range(model.model.config.vocab_size))
    said = error_of(strategy, model, num_beams=4, suppress_tokens=banned)
    assert "removed" in said
    assert "internal" not in said


@pytest.mark.parametrize("strategy", ["beam_search", "beam_sampling", "diverse_beam_search"])
def test_one_beam_with_broken_logits_ends_the_run(strategy):
    broken = LoadedModel(fresh_model("llama"), None, "broken")
    forward, calls = broken.model.forward, []

    def poisoned(*args, **kwargs):
        outputs = forward(*args, **kwargs)
        calls.append(1)
        if len(calls) == 3:
            outputs.logits[1] = math.nan
        return outputs

    broken.model.forward = poisoned
    said = error_of(strategy, broken, num_beams=4, max_new_tokens=8)
    assert "not finite at step 3" in said


def test_a_cancelled_search_has_no_greedy_path():
    model = golden_model("llama")
    request = DecodeRequest("beam_search", model, input_ids=PROMPT, params={"max_new_tokens": 200})
    with gate(model.model, free=5) as held:
        run = decode(request)
        held.wait()
        run.cancel()
        held.open()
        *_, last = run
    assert isinstance(last, Finished)
    assert held.passes == 6
    assert last.trace.outputs[0].finish_reason == "cancelled"
    assert last.trace.steps[-1].detail.greedy is None
    check_beams(last.trace)
