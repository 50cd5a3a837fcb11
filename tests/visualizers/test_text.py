"""Every token has its probability where its record has one, and the costs are those of the run."""

from __future__ import annotations

import dataclasses
import math

import pytest

from engine import DecodeRequest
from engine.statistics import metrics
from engine.strategies import STRATEGIES
from engine.trace.details import BeamDetail, DraftDetail
from engine.trace.records import replay_ids
from tests.helpers.models import golden_model
from tests.helpers.runs import finished
from tests.helpers.strategies import NEXT_TOKEN, recorded, trace_of
from visualizers.text.summary import MIN_PROBABILITY, TextSummary

ONE_BY_ONE = ("greedy", "sampling", "contrastive_search", "dola", "watermark")
BEAMS = ("beam_search", "beam_sampling", "diverse_beam_search")


def shown(trace):
    text = TextSummary(trace)
    return [text.add(step) for step in trace.steps]


def seen(trace, sequence=0):
    """Return (id, p, used, bits) of every token of a text as it stands at the end."""
    text = []
    for step, values in zip(trace.steps, shown(trace), strict=True):
        if step.sequence == sequence:
            text[step.keep :] = zip(
                step.emit, values["p"], values["used"], values["bits"], strict=True
            )
    return text


@pytest.mark.by_day(3)
@pytest.mark.parametrize("name", STRATEGIES)
def test_the_tokens_are_those_of_the_text_and_bits_are_those_of_p(name):
    trace = recorded(name)
    text = seen(trace)
    assert [token for token, *_ in text] == replay_ids(trace.steps_of(0))
    # No filter changes the distributions of masked diffusion.
    assert any(used is not None for _, _, used, _ in text) == (name in NEXT_TOKEN)
    for _, own, used, bits in text:
        p = used if own is None else own
        assert (p is None) == (bits is None)
        if p is not None:
            assert bits == pytest.approx(-math.log2(max(p, MIN_PROBABILITY)), abs=1e-3)


@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_a_token_of_its_own_step_has_the_models_probability(name):
    trace = trace_of(name)
    for step, (token, p, used, _) in zip(trace.steps, seen(trace), strict=True):
        own = next(c for c in step.candidates if c.token_id == token)
        assert p == pytest.approx(math.exp(own.raw_logprob), rel=1e-5)
        assert used == pytest.approx(math.exp(own.processed_logprob), rel=1e-5)


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
    for node, (_, p, used, _) in zip(path, found, strict=True):
        assert used == pytest.approx(math.exp(node.logprob), rel=1e-5)
        # Its own is known where no processor changed it but diversity, which says what it cost.
        charged = node.logprob + node.diversity_penalty
        assert p is None or p == pytest.approx(math.exp(charged), rel=1e-5)
        assert (p is None) == (name == "beam_sampling")


def test_a_search_in_groups_lists_all_its_texts_with_their_groups():
    trace = trace_of("diverse_beam_search", num_beams=4, num_beam_groups=2, num_return_sequences=2)
    last = trace.steps[-1].detail
    assert isinstance(last, BeamDetail)
    others = shown(trace)[-1]["others"]
    assert [other["score"] for other in others] == [h.score for h in last.heap[1:]]
    assert [other["group"] for other in others] == [h.group for h in last.heap[1:]]
    assert {last.heap[0].group, *(other["group"] for other in others)} == {0, 1}
    assert [other["output"] for other in others] == [1, *[None] * (len(others) - 1)]
    assert tuple(others[0]["token_ids"]) == trace.outputs[1].token_ids
    for other in others:
        assert other["own"]["tokens"] == len(other["token_ids"]) == len(other["used"])
    assert not any("others" in values for values in shown(trace)[:-1])


def test_a_search_lists_only_the_texts_it_returns():
    trace = trace_of("beam_search", num_beams=4, num_return_sequences=3)
    others = shown(trace)[-1]["others"]
    assert [tuple(other["token_ids"]) for other in others] == [
        output.token_ids for output in trace.outputs[1:]
    ]


@pytest.mark.parametrize("params", [{}, {"repetition_penalty": 1.3}])
def test_a_drafted_token_has_that_which_it_was_judged_by(params):
    trace = trace_of("speculative", **params)
    for step, values in zip(trace.steps, shown(trace), strict=True):
        assert isinstance(step.detail, DraftDetail)
        kept = [token.p for token in step.detail.tokens if token.status == "accepted"]
        kept = kept[: len(step.emit)]
        assert values["used"][: len(kept)] == kept
        # It is the model's own only where no processor stood between.
        assert values["p"][: len(kept)] == ([None] * len(kept) if params else kept)


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_last_costs_are_those_of_the_run(name):
    trace = recorded(name)
    last = shown(trace)[-1]
    assert last["tokens"] == sum(len(replay_ids(trace.steps_of(i))) for i in range(8))
    assert last["forward_passes"] == trace.metrics["forward_passes"]
    assert last["tokens_per_s"] == pytest.approx(last["tokens"] / trace.steps[-1].elapsed_s)
    assert last["first_token_s"] == trace.timing.first_token_s == trace.steps[0].elapsed_s


def test_several_texts_are_followed_apart():
    params = {"max_new_tokens": 5, "num_return_sequences": 3}
    request = DecodeRequest("sampling", golden_model("llama"), input_ids=[1, 5], params=params)
    trace = finished(request)
    assert shown(trace)[-1]["tokens"] == sum(len(output.token_ids) for output in trace.outputs)
    for number, output in enumerate(trace.outputs):
        assert tuple(token for token, *_ in seen(trace, number)) == output.token_ids


def test_every_text_has_figures_of_its_own():
    params = {"max_new_tokens": 12, "num_return_sequences": 3, "temperature": 2.0, "top_k": 0}
    request = DecodeRequest("sampling", golden_model("llama"), input_ids=[1, 5], params=params)
    trace = finished(request)
    figures = [values["own"] for values in shown(trace)]
    for number, output in enumerate(trace.outputs):
        steps = trace.steps_of(number)
        alone = metrics.compute_metrics(
            dataclasses.replace(trace, steps=steps_alone(steps), outputs=(output,))
        )
        own = figures[steps[-1].index]
        assert own["tokens"] == len(output.token_ids)
        assert own["perplexity"] == pytest.approx(alone["perplexity"], rel=1e-4)
        assert own["rep_3"] == pytest.approx(alone["rep_3"], abs=1e-6)
    assert len({figures[trace.steps_of(i)[-1].index]["perplexity"] for i in range(3)}) == 3


def steps_alone(steps):
    """Return the steps of one text as if it were the only one."""
    return tuple(dataclasses.replace(step, sequence=0) for step in steps)
