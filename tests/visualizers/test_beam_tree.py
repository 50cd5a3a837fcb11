"""The numbers of the beam tree are those of the pools that the trace recorded."""

from __future__ import annotations

import json
import math

import pytest

from engine import DecodeRequest
from tests.helpers.models import golden_model
from tests.helpers.runs import finished, reread
from visualizers.beam_tree.summary import BeamTreeSummary

PROMPT = [1, 5, 6, 7, 8, 9]
STRATEGIES = ["beam_search", "beam_sampling", "diverse_beam_search"]


def searched(strategy, **params):
    params = {"max_new_tokens": 10, "num_beams": 4, **params}
    return reread(DecodeRequest(strategy, golden_model("llama"), input_ids=PROMPT, params=params))


def shown(trace):
    tree = BeamTreeSummary(trace)
    return [tree.add(step) for step in trace.steps]


def path_of(trace, node_id):
    nodes = {node.node_id: node for step in trace.steps for node in step.detail.pool}
    path = []
    while node_id != -1:
        path.insert(0, nodes[node_id])
        node_id = nodes[node_id].parent_id
    return path


def test_a_bias_that_lifts_a_log_probability_above_0_counts_as_certain():
    trace = searched("beam_search", sequence_bias=[[[7], 900.0]])
    lifted = [node.logprob > 709 for node in trace.steps[0].detail.pool]
    shares = [json.loads(json.dumps(one, allow_nan=False))["p"] for one in shown(trace)]
    assert any(lifted)
    assert [share == 1 for share in shares[0]] == lifted


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_probabilities_and_who_leads(strategy):
    trace = searched(strategy)
    for step, values in zip(trace.steps, shown(trace), strict=True):
        expected = [math.exp(node.logprob) for node in step.detail.pool]
        assert values["p"] == pytest.approx(expected, rel=1e-5)
    for step, values in zip(trace.steps[:-1], shown(trace)[:-1], strict=True):
        kept = [node for node in step.detail.pool if node.fate == "kept"]
        leader = max(kept, key=lambda node: node.sum_logprobs)
        heap = step.detail.heap
        ahead = heap and heap[0].score >= leader.score
        assert values["best"] == (heap[0].node_id if ahead else leader.node_id)
        assert values["greedy"] is None
    winner = shown(trace)[-1]["best"]
    assert winner == trace.steps[-1].detail.winner_node_id
    path = path_of(trace, winner)
    assert [node.token_id for node in path] == list(trace.outputs[0].token_ids)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_text_dies_with_the_last_of_its_continuations(strategy):
    trace = searched(strategy)
    nodes = [node for step in trace.steps for node in step.detail.pool]
    alive = set()
    last = {node.node_id for node in trace.steps[-1].detail.pool}
    for node in nodes:
        if node.fate == "finished" or (node.fate == "kept" and node.node_id in last):
            alive |= {above.node_id for above in path_of(trace, node.node_id)}
    dead = {node.node_id for node in nodes if node.fate == "kept"} - alive
    died = [node for values in shown(trace) for node in values["died"]]
    assert set(died) == dead
    assert len(died) == len(dead) > 0


@pytest.mark.parametrize("strategy", ["beam_search", "diverse_beam_search"])
def test_greedy_search_next_to_the_winner(strategy):
    trace = searched(strategy)
    detail, beside = trace.steps[-1].detail, shown(trace)[-1]["greedy"]
    winner = path_of(trace, detail.winner_node_id)
    ids = list(detail.greedy.token_ids)
    nodes = {node.node_id: node for step in trace.steps for node in step.detail.pool}
    assert [nodes[i].token_id for i in beside["path"]] == ids[: len(beside["path"])]
    children = {node.token_id for node in nodes.values() if node.parent_id == beside["path"][-1]}
    assert len(beside["path"]) == len(ids) or ids[len(beside["path"])] not in children
    if len(ids) == len(winner):
        gain = winner[-1].sum_logprobs - detail.greedy.sum_logprobs
        assert beside["gain"] == gain
        assert beside["times"] == pytest.approx(math.exp(abs(gain)))
    else:
        assert (beside["gain"], beside["times"]) == (None, None)
    assert beside["paid"] == pytest.approx(sum(node.diversity_penalty for node in winner))


def test_texts_of_different_lengths_are_not_compared():
    trace = finished(
        DecodeRequest(
            "beam_search",
            golden_model("gpt2"),
            input_ids=PROMPT,
            params={"max_new_tokens": 6, "num_beams": 3},
        )
    )
    last = trace.steps[-1].detail
    assert set(last.greedy.token_ids) <= set(trace.pieces)
    beside = shown(trace)[-1]["greedy"]
    same = len(last.greedy.token_ids) == len(path_of(trace, last.winner_node_id))
    assert (beside["gain"] is not None) == same
    # At the longest length every beam has ended: nothing is open, so nothing can be reached.
    assert last.best_running is None
    for step in trace.steps[:-1]:
        assert step.detail.best_running > -1000


def test_a_search_that_draws_has_no_greedy_search_next_to_it():
    assert shown(searched("beam_sampling"))[-1]["greedy"] is None


def test_other_strategies_have_no_tree():
    trace = finished(DecodeRequest("greedy", golden_model("llama"), input_ids=PROMPT))
    assert all(values is None for values in shown(trace))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_a_pool_leaves_of_a_texts_probability(strategy):
    trace = searched(strategy)
    for step, values in zip(trace.steps, shown(trace), strict=True):
        pool = step.detail.pool
        for i, node in enumerate(pool):
            beside = [k for k, other in enumerate(pool) if other.parent_id == node.parent_id]
            beside = [k for k in beside if pool[k].group == node.group]
            taken = sum(values["p"][k] for k in beside)
            assert values["rest"][i] == pytest.approx(max(0, 1 - taken), abs=1e-5)
        # The step's candidates are those of the best text that goes on.
        kept = [node for node in pool if node.fate == "kept"] or pool
        leader = max(kept, key=lambda node: node.sum_logprobs)
        assert values["row"] == leader.parent_id
        assert leader.token_id in {candidate.token_id for candidate in step.candidates}


def test_the_models_own_probability_is_known_where_diversity_alone_changed_it():
    for strategy, params, known in (
        ("beam_search", {}, True),
        ("diverse_beam_search", {}, True),
        ("beam_search", {"repetition_penalty": 1.3}, False),
    ):
        trace = searched(strategy, **params)
        for step, values in zip(trace.steps, shown(trace), strict=True):
            for node, p, model in zip(step.detail.pool, values["p"], values["model"], strict=True):
                assert (model is not None) == known
                if model is not None:
                    assert model >= p
                    assert (model > p) == (node.diversity_penalty > 0)


def test_the_tree_is_opened_where_the_search_leaves_the_greedy_path_or_first_splits():
    trace = searched("beam_search", num_beams=6)
    last = trace.steps[-1].detail
    assert last.greedy is not None
    split = next(
        step.index
        for step in trace.steps[1:]
        for on in [[n.parent_id for n in step.detail.pool if n.fate in ("kept", "finished")]]
        if len(set(on)) < len(on)
    )
    left_at = last.greedy.left_at
    assert shown(trace)[-1]["parting"] == (split if left_at is None else left_at)
    assert all(values["parting"] is None for values in shown(trace)[:-1])
    one = searched("beam_search", num_beams=1)
    assert shown(one)[-1]["parting"] is None
