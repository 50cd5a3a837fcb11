"""Every token has its probability where its record has one, and the costs are those of the run."""

from __future__ import annotations

import math

import pytest

from engine import DecodeRequest
from engine.strategies import STRATEGIES
from engine.trace.details import BeamDetail, DraftDetail
from engine.trace.records import replay_ids
from tests.helpers.models import golden_model
from tests.helpers.runs import finished
from tests.helpers.strategies import trace_of
from visualizers.text.summary import LEAST, Written

ONE_BY_ONE = ("greedy", "sampling", "contrastive_search", "dola", "watermark")
BEAMS = ("beam_search", "beam_sampling", "diverse_beam_search")


def shown(trace):
    text = Written(trace)
    return [text.add(step) for step in trace.steps]


def seen(trace, sequence=0):
    """Return (id, p, processed, bits) of every token of a text as it stands at the end."""
    text = []
    for step, values in zip(trace.steps, shown(trace), strict=True):
        if step.sequence == sequence:
            text[step.keep :] = zip(
                step.emit, values["p"], values["processed"], values["bits"], strict=True
            )
    return text


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_tokens_are_those_of_the_text_and_bits_are_those_of_p(name):
    trace = trace_of(name)
    text = seen(trace)
    assert [token for token, *_ in text] == replay_ids(trace.steps_of(0))
    assert any(p is not None for _, p, *_ in text)
    for _, p, _, bits in text:
        assert (p is None) == (bits is None)
        if p is not None:
            assert bits == pytest.approx(-math.log2(max(p, LEAST)), abs=1e-3)


@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_a_token_of_its_own_step_has_the_models_probability(name):
    trace = trace_of(name)
    for step, (token, p, processed, _) in zip(trace.steps, seen(trace), strict=True):
        own = next(c for c in step.candidates if c.token_id == token)
        assert p == pytest.approx(math.exp(own.raw_logprob), rel=1e-5)
        assert not processed


@pytest.mark.parametrize("name", BEAMS)
def test_a_token_of_a_beam_has_that_of_its_own_path(name):
    trace = trace_of(name, num_beams=4)
    details = [step.detail for step in trace.steps]
    assert all(isinstance(detail, BeamDetail) for detail in details)
    nodes = {node.node_id: node for detail in details for node in detail.pool}
    path, at = [], details[-1].winner_node_id
    while at != -1:
        path.insert(0, nodes[at])
        at = nodes[at].parent_id
    found = seen(trace)
    assert [token for token, *_ in found] == [node.token_id for node in path]
    for node, (_, p, processed, _) in zip(path, found, strict=True):
        assert p == pytest.approx(math.exp(node.logprob), rel=1e-5)
        assert processed


def test_a_drafted_token_has_that_which_it_was_judged_by():
    trace = trace_of("speculative")
    for step, values in zip(trace.steps, shown(trace), strict=True):
        assert isinstance(step.detail, DraftDetail)
        kept = [token.p for token in step.detail.tokens if token.status == "accepted"]
        assert values["p"][: len(kept)] == kept[: len(step.emit)]
        assert values["processed"][: len(kept)] == [True] * len(kept[: len(step.emit)])


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_last_costs_are_those_of_the_run(name):
    trace = trace_of(name)
    last = shown(trace)[-1]
    assert last["tokens"] == sum(len(replay_ids(trace.steps_of(i))) for i in range(8))
    assert last["forward_passes"] == trace.metrics["forward_passes"]
    assert last["tokens_per_s"] == pytest.approx(last["tokens"] / trace.steps[-1].elapsed_s)


def test_several_texts_are_followed_apart():
    params = {"max_new_tokens": 5, "num_return_sequences": 3}
    request = DecodeRequest("sampling", golden_model("llama"), input_ids=[1, 5], params=params)
    trace = finished(request)
    assert shown(trace)[-1]["tokens"] == sum(len(output.token_ids) for output in trace.outputs)
    for number, output in enumerate(trace.outputs):
        assert tuple(token for token, *_ in seen(trace, number)) == output.token_ids
